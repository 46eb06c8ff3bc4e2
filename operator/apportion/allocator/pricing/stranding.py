"""Stranding: the value of free devices that a choice strands on a node with too little cpu or memory for the demand.

In: cpu and memory that recent pods requested, and those that nodes have left. Out: the stranded value, `UNIT` for a whole
device; negative where the choice uses stranded devices. As in FGD (Weng et al., USENIX ATC 2023), but by value and by the
curve of `hostcurve`: devices that the demand cannot use count as stranded, however many they are.
"""

from collections.abc import Set as AbstractSet

from apportion.allocator.equivalence.nodeclasses import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.demandhistory import TypicalHostDemand
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.hostcurve import HostCurve
from apportion.allocator.pricing.shorthosts import HostedState, ShortHosts, SufficientResources
from apportion.allocator.rules.query import Query
from apportion.allocator.search.search import Pick

MOST_KEPT = 1 << 16
"""Pairs of free value and resources whose stranded value is kept."""

NO_NODES: AbstractSet[str] = frozenset()


class Stranding:
    """Stranded value under one demand mix."""

    def __init__(self, devices: FreeWorth) -> None:
        self._devices = devices
        self._typical: TypicalHostDemand | None = None
        self._cpu = self._memory = HostCurve(())
        self._short_hosts = ShortHosts(devices, SufficientResources(0, 0))
        self._known: Memo[tuple[int, HostResources], int] = Memo(MOST_KEPT)

    def update(self, typical: TypicalHostDemand, node_classes: NodeClasses) -> None:
        """Take over what recent pods requested, if it changed."""
        if typical is self._typical:
            return
        self._typical = typical
        self._known.clear()
        rows = [
            (worth / UNIT, asked, count)
            for query, asked, count in typical
            if (worth := self._devices.typical(query, node_classes)) > 0
        ]
        self._cpu = HostCurve((asked.cpu / worth, count * worth) for worth, asked, count in rows)
        self._memory = HostCurve((asked.memory / worth, count * worth) for worth, asked, count in rows)
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
        host: HostDemand,
        left: HostResources,
        node_state: NodeState,
        view: NodeView,
        query: Query,
        picks: tuple[Pick, ...],
    ) -> int:
        """Return by how much the stranded value of a node grows when the demand takes these picks.

        `left`: the node's cpu and memory before.
        """
        free = self._devices.free(node_state, view)
        after = free - self._devices.taken(node_state, view, query, picks)
        return self._stranded(after, left.less(host.requested)) - self._stranded(free, left)

    def _stranded(self, free: int, left: HostResources) -> int:
        key = free, left
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._value(free, left)
        return found

    def _value(self, free: int, left: HostResources) -> int:
        if free <= 0:
            return 0
        devices = free / UNIT
        return round(free * max(self._cpu.part(left.cpu / devices), self._memory.part(left.memory / devices)))
