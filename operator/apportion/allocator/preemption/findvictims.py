"""find_victims(): the cheapest victims in the cluster whose devices would serve a demand.

In: a state, a demand, its terms, the victims of each node that could take it. Out: the victims with what the demand gets once they
are gone, or None. Pure and deterministic; the state is unchanged at the end, and between the steps of `victim_steps()`.

Cost: the highest priority among the victims first, then the number of pods that go, then the time that they have had their
devices. Nodes are searched in the order of their bounds until no other node can be cheaper. A demand that a node could serve
without any victim gets none here: it only waits for its turn.
"""

from collections.abc import Callable, Generator, Mapping, Sequence

from apportion.allocator.demand import Demand
from apportion.allocator.finished import finished
from apportion.allocator.preemption.asread import AsRead
from apportion.allocator.preemption.nodesearch import Budget, Found, NodeSearch
from apportion.allocator.preemption.victims import NodeVictims, VictimCost, VictimSet
from apportion.allocator.state import State
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId

TRIES = 256
"""Questions that a search may ask of the allocator: some tenths of a millisecond each for whole devices, up to some hundredths of a second for several partitions."""
MOST_NODES = 32
"""Nodes of which a search takes bounds at most."""
_TIMES = 3
"""How often a node is searched at most that changes while it is."""


def find_victims(
    state: State,
    demand: Demand,
    nodes: Sequence[NodeVictims],
    *,
    wanted: Mapping[str, int] | None = None,
    terms: Terms = DEFAULT_TERMS,
    prefer: Mapping[DeviceId, int] | None = None,
    tries: int = TRIES,
) -> VictimSet | None:
    """Return the cheapest victims; None if no node of these could serve the demand without some of its victims.

    `wanted`: resources that the demand's pods request of a node, `pods` included. `tries`: with more of them more sets
    are proven to be the cheapest. Of more than MOST_NODES nodes only the first are looked at: the caller takes turns.

    Raises BrokenInput if no state could serve the claims as they are written.
    """
    read = {each.node: each for each in nodes}.__getitem__
    names = [each.node for each in nodes]
    return finished(
        victim_steps(state, demand, names, read, wanted=wanted, terms=terms, prefer=prefer, tries=tries)
    )


def victim_steps(
    state: State,
    demand: Demand,
    nodes: Sequence[str],
    read: Callable[[str], NodeVictims],
    *,
    wanted: Mapping[str, int] | None = None,
    terms: Terms = DEFAULT_TERMS,
    prefer: Mapping[DeviceId, int] | None = None,
    tries: int = TRIES,
) -> Generator[None, None, VictimSet | None]:
    """Do as `find_victims`, and let others change the state between two steps; `read` returns the victims of a node as they are now.

    A node that changes while it is searched is read and searched once more. What is returned holds now; None: nothing was found, or it holds no more.

    Raises BrokenInput as `find_victims`.
    """
    search = _Search(state, demand, read, wanted or {}, Budget(tries))
    bounds: list[tuple[tuple[int, int], str]] = []
    for name in nodes[:MOST_NODES]:
        bound = search.bound(name)
        if bound is not None:
            bounds.append((bound, name))
        yield
    best: tuple[NodeVictims, Found] | None = None
    for bound, name in sorted(bounds, key=lambda row: row[0]):
        below = (best[1].priority, best[1].weight) if best is not None else None
        # As long as nothing would be lost, another node may need nobody to go.
        if below is not None and bound >= below and below[1]:
            break
        if search.budget.left <= 0:
            search.proven = False
            break
        found = yield from search.cheapest(name, below)
        if found is not None:
            if not found[1].mask:
                return None
            best = found
    return search.as_now(*best, terms, prefer or {}) if best is not None else None


class _Search:
    """One search. A node is read when its turn comes."""

    def __init__(
        self,
        state: State,
        demand: Demand,
        read: Callable[[str], NodeVictims],
        wanted: Mapping[str, int],
        budget: Budget,
    ) -> None:
        self._state = state
        self._demand = demand
        self._read = read
        self._wanted = wanted
        self.budget = budget
        self.proven = True

    def bound(self, name: str) -> tuple[int, int] | None:
        """Return the least priority and weight of victims on a node; None: there are none."""
        return self._of(self._read(name)).bound() if name in self._state.names() else None

    def cheapest(
        self, name: str, below: tuple[int, int] | None
    ) -> Generator[None, None, tuple[NodeVictims, Found] | None]:
        """Return the cheapest victims of a node below a priority and weight, with all that were read there."""
        for _ in range(_TIMES):
            if name not in self._state.names():
                return None
            node = self._read(name)
            search, as_read = self._of(node), AsRead(self._state)
            as_read.add(node)
            steps = search.cheapest(below)
            while not as_read.changed():
                try:
                    next(steps)
                except StopIteration as end:
                    self.proven &= search.proven
                    return (node, end.value) if end.value is not None else None
                yield
        self.proven = False
        return None

    def as_now(
        self, node: NodeVictims, found: Found, terms: Terms, prefer: Mapping[DeviceId, int]
    ) -> VictimSet | None:
        """Return victims as they are now, with what the demand gets; None: some are no victims any more, or it gets nothing."""
        if node.node not in self._state.names():
            return None
        keys, now = {each.key for each in node.chosen(found.mask)}, self._read(node.node)
        mask = sum(1 << index for index, each in enumerate(now.victims) if each.key in keys)
        if mask.bit_count() < len(keys) or not now.allows(mask):
            return None
        decision = self._of(now).decision(mask, terms, prefer)
        if decision is None:
            return None
        priority = max(each.priority for each in now.chosen(mask))
        cost = VictimCost.of(priority, now.weight(mask))
        victims, broken = now.chosen(now.closed(mask)), now.broken_groups(mask)
        return VictimSet(now.node, victims, broken, cost, decision, self.proven)

    def _of(self, node: NodeVictims) -> NodeSearch:
        return NodeSearch(self._state, self._demand, node, self._wanted, self.budget)
