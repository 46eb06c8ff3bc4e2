"""Stranding: the value of free devices that a choice strands on a node with too little cpu or memory for the demand.

In: cpu and memory that recent pods requested, and those that nodes have left. Out: the stranded value, `UNIT` for a whole
device; negative where the choice uses stranded devices. As in FGD (Weng et al., USENIX ATC 2023), but by value and by the
curve of `hostcurve`: devices that the demand cannot use count as stranded, however many they are.
"""

from bisect import bisect_right
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import NamedTuple

from apportion.allocator.equivalence.nodeclasses import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.memo import Memo
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.demandhistory import TypicalHostDemand
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.shorthosts import HostedState, ShortHosts, SufficientResources
from apportion.allocator.rules.query import Query
from apportion.allocator.search.search import Pick

DRAWS = 2
"""Pods of which the better one is placed. With one, devices that a smaller pod could still use would count as stranded."""


class HostCurve:
    """The curve of one resource; falls to 0 at the largest request."""

    __slots__ = ("_chances", "_slopes", "amounts")

    def __init__(self, requests: Iterable[tuple[float, float]]) -> None:
        """`requests`: (amount per unit of device value, how often); amounts from 0 up."""
        rows = sorted(requests)
        total = sum(weight for _, weight in rows)
        parts = [(amount, weight / total) for amount, weight in rows if amount > 0 and weight > 0]
        above = sum(part for _, part in parts)
        chances: list[tuple[float, float]] = []
        for amount, part in parts:
            # The smallest loss among the drawn pods is this pod's when no other requests less.
            rest = max(above - part, 0.0)
            chances.append((amount, above**DRAWS - rest**DRAWS))
            above = rest
        self.amounts = [amount for amount, _ in chances]
        # From the largest request down: a request that fits loses nothing.
        descending = chances[::-1]
        self._chances = list(accumulate((chance for _, chance in descending), initial=0.0))[::-1]
        self._slopes = list(accumulate((chance / amount for amount, chance in descending), initial=0.0))[::-1]

    @property
    def most(self) -> float:
        """Return the amount per unit of device value from which on nothing is stranded; 0 without requests."""
        return self.amounts[-1] if self.amounts else 0.0

    def differs(self, other: "HostCurve") -> float:
        """Return the greatest difference of the stranded part; both curves are straight between their amounts."""
        amounts = {0.0, *self.amounts, *other.amounts}
        return max(abs(self.part(amount) - other.part(amount)) for amount in amounts)

    def part(self, left: float) -> float:
        """Return the stranded part with this amount left per unit of device value."""
        at = bisect_right(self.amounts, left)
        found = self._chances[at] - left * self._slopes[at]
        # The built-in `max` takes as long as all of the above.
        return max(0.0, found)


MOVED = 0.02
"""Part of a node's value by which a curve must differ somewhere to be taken over: every key of a node depends on the curves.
A curve drawn from `demandhistory.LATEST` pods errs by about as much."""

MOST_KEPT = 1 << 16
"""Nodes whose stranded value is kept."""

NO_NODES: AbstractSet[str] = frozenset()


class NodeBefore(NamedTuple):
    """The stranded value of a node as it is."""

    node_state: NodeState
    left: HostResources
    free: int
    """Value of its free devices."""
    stranded: int


class Stranding:
    """Stranded value under one demand mix."""

    def __init__(self, devices: FreeWorth) -> None:
        self._devices = devices
        self.version = 0
        """Grows when what recent pods requested is taken over."""
        self._typical: TypicalHostDemand | None = None
        self._cpu = self._memory = HostCurve(())
        self._short_hosts = ShortHosts(devices, SufficientResources(0, 0))
        self._before: Memo[str, NodeBefore] = Memo(MOST_KEPT)
        """By node: every request of cpu and memory compares with the same value before."""

    def update(self, typical: TypicalHostDemand, node_classes: NodeClasses) -> None:
        """Take over what recent pods requested, if it changed."""
        if typical is self._typical:
            return
        self._typical = typical
        rows = [
            (worth / UNIT, asked, count)
            for query, asked, count in typical
            if (worth := self._devices.typical(query, node_classes)) > 0
        ]
        cpu = HostCurve((asked.cpu / worth, count * worth) for worth, asked, count in rows)
        memory = HostCurve((asked.memory / worth, count * worth) for worth, asked, count in rows)
        if max(cpu.differs(self._cpu), memory.differs(self._memory)) < MOVED:
            return
        self._cpu, self._memory = cpu, memory
        self.version += 1
        self._before.clear()
        enough = SufficientResources.of(self._cpu.most, self._memory.most)
        if enough != self._short_hosts.enough:
            self._short_hosts = ShortHosts(self._devices, enough)

    def nodes(
        self, state: HostedState, host: HostDemand, query: Query, node_classes: NodeClasses
    ) -> AbstractSet[str]:
        """Return the nodes on which cpu or memory matter: short ones; all if the pods request more than any recent pod."""
        enough = self._short_hosts.enough
        if not enough.cpu and not enough.memory:
            return NO_NODES
        own = self._devices.typical(query, node_classes) / UNIT
        if host.requested.cpu > enough.cpu * own or host.requested.memory > enough.memory * own:
            return state.hosts.left.keys()
        self._short_hosts.catch_up(state)
        return self._short_hosts.with_taken(state, host.taken)

    def change(
        self,
        state: HostedState,
        name: str,
        requested: HostResources,
        left: HostResources,
        query: Query,
        picks: tuple[Pick, ...],
    ) -> int:
        """Return by how much the stranded value of a node grows when the demand takes these picks.

        `requested`: of the demand's pods; `left`: the node's cpu and memory before. Hot path.
        """
        node_state = state.node_states.of(name)
        before = self._before.get(name)
        if before is None or before.node_state is not node_state or before.left != left:
            free = self._devices.free(node_state, state.view(name))
            stranded = self._stranded(free, *left)
            before = self._before[name] = NodeBefore(node_state, left, free, stranded)
        cpu, memory = left
        asked_cpu, asked_memory = requested
        taken = self._devices.taken(node_state, query, picks, name, state.view)
        return self._stranded(before.free - taken, cpu - asked_cpu, memory - asked_memory) - before.stranded

    def _stranded(self, free: int, cpu: int, memory: int) -> int:
        """Return the stranded part of free device value; amounts below zero count as zero."""
        if free <= 0:
            return 0
        devices = free / UNIT
        part = self._cpu.part(cpu / devices if cpu > 0 else 0.0)
        if memory < self._memory.most * devices:
            other = self._memory.part(memory / devices if memory > 0 else 0.0)
            part = max(part, other)
        return round(free * part)
