"""NodeSteps: the searches that a decision about a demand needs, one node, or a slice of its search, at a time.

In: the outcomes of nodes. Out: one more of them is known.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from apportion.allocator.hostcomparison import HostComparison
from apportion.allocator.nodeoutcomes import FEW_NODES, NodeOutcomes
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.search.outcome import Solved
from apportion.allocator.search.searchbudget import Paused
from apportion.allocator.strategies.leastfragmentation import LeastFragmentation
from apportion.dra.device import DeviceId

MANY_STATES = 256
"""States that a step may search for one device of each: three thousand of them took 0.2 s."""


@dataclass(slots=True)
class NodeSteps(NodeOutcomes):
    """Outcomes of nodes that are searched before a decision asks for them."""

    learned: LeastFragmentation | None
    """The scorer that prices what a choice strands for lack of cpu or memory; None: devices alone decide."""
    paused: bool = field(default=False, kw_only=True)
    """Whether the last search that was asked for goes on."""

    def advance(self) -> bool:
        """Search one of the nodes that the demand needs searched, where it singles out no devices, and keep the outcome; False: there is none, or nothing is kept."""
        return self._has_searched(self._advance)

    def _advance(self) -> bool:
        ranking, nodes = self.ranking, self.demand.nodes
        if not ranking.scorer.scans:
            return self._advance_in_order()
        few = nodes is not None and len(nodes) <= FEW_NODES and ranking.is_new
        names = sorted(self.names() - self.own_by_node().keys()) if few else None
        if isinstance(ranking, RankedNodes):
            short, plain, whole = (
                self.short_of_host(),
                self.by_node(searched=few),
                self.by_node(searched=True),
            )
            # What is stranded there is compared by picks.
            answer = (lambda name: (whole if name in short else plain)(name)) if short else plain
            return ranking.advance(answer, names) or (names is None and ranking.improve(whole, short))
        if isinstance(ranking, RankedStates) and names is None:
            if self.compares_many():
                return ranking.advance(self.by_state(), MANY_STATES) or self._search_short()
            return ranking.advance(self.by_state())
        for name in names or ():
            if ranking.known(ranking.searched.get(self.node_states.of(name))) is None:
                self.searched(name)
                return True
        return False

    def compares_many(self) -> bool:
        """Say whether a decision would search more states than a step may, because nothing is known of them yet and their nodes are short of cpu or memory."""
        is_new = isinstance(self.ranking, RankedStates) and self.ranking.is_new
        return is_new and len(self.node_states) > MANY_STATES and len(self.short_of_host()) > MANY_STATES

    def _search_short(self) -> bool:
        """Search as many states as a step may of those with nodes that are short of cpu or memory, which are only estimated; False: there are none."""
        comparison, hosts = self._comparison(), self.state.hosts.left
        if comparison is None:
            return False

        def is_compared(name: str) -> bool:
            left = hosts.get(name)
            return name in comparison.nodes and (left is None or left.holds(comparison.requested))

        rest = MANY_STATES
        for state in self.node_states.all():
            name = next(filter(is_compared, state.nodes), None)
            known = self.ranking.outcome(name) if name is not None else None
            is_estimated = isinstance(known, Solved) and not known.has_picks
            if name is None or not is_estimated or self.ranking.searched.get(state) is not None:
                continue
            self.searched(name)
            rest -= 1
            if not rest:
                break
        return rest < MANY_STATES

    def short_of_host(self) -> AbstractSet[str]:
        """Return the nodes that are short of cpu or memory, where that is compared."""
        comparison = self._comparison()
        return comparison.nodes if comparison is not None else frozenset()

    def _comparison(self) -> HostComparison | None:
        """Return the comparison of nodes that are short of cpu or memory; None where devices alone decide."""
        if self.demand.host is None or self.learned is None:
            return None
        stranding, scarcity = self.learned.stranding, self.learned.scarcity
        found = HostComparison(self.state, self.named.query, self.demand.host, stranding, scarcity)
        return found if found.nodes else None

    def _advance_in_order(self) -> bool:
        """Do the same where the first node that can serve is chosen: none behind it is searched."""
        ranking, own = self.ranking, self.own_by_node()
        ranking.catch_up(self.solve)
        for name in sorted(self.names()):
            if name in own:
                found = ranking.known(ranking.special.get(self.special_key(name, *own[name])))
            else:
                found = ranking.outcome(name)
                if found is None:
                    self.known_or_solved(name)
                    return True
            if found is None or isinstance(found, Solved):
                return False
        return False

    def advance_on(self, name: str, devices: Iterable[DeviceId]) -> bool:
        """Search a node where the demand singles out these devices, and keep the outcome; False: it was searched, or nothing is kept."""
        return self._has_searched(lambda: self._advance_on(name, devices))

    def _advance_on(self, name: str, devices: Iterable[DeviceId]) -> bool:
        if name not in self.state.names():
            return False
        prefer, excluded = self.own(name, devices)
        key = self.special_key(name, prefer, excluded)
        if not (prefer or excluded) or self.ranking.known(self.ranking.special.get(key)) is not None:
            return False
        self.solve_special(name, prefer, excluded)
        return True

    def _has_searched(self, advance: Callable[[], bool]) -> bool:
        """Return what a search says; True where it paused."""
        try:
            self.paused = False
            return advance()
        except Paused:
            self.paused = True
            return True
