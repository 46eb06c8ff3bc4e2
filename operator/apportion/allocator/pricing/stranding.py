"""FreeWorth that a choice strands: left on a node with too little cpu or memory beside them for what is asked for.

In: what pods of late requested beside devices, what nodes have left. Out: what a choice strands, in the unit of worth;
below zero where it puts to use what was stranded. As in FGD (Weng et al., USENIX ATC 2023), but by worth and by the curve
of `shortfall`: what the demand cannot use is useless, however much of it there is.
"""

from collections.abc import Set as AbstractSet

from apportion.allocator.equivalence.nodeclasses import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.hostcurve import HostCurve
from apportion.allocator.pricing.hostdemand import TypicalHostDemand
from apportion.allocator.pricing.shorthosts import HostedState, ShortHosts, SufficientResources
from apportion.allocator.rules.query import Query
from apportion.allocator.search.search import Pick

MOST_KEPT = 1 << 16
"""States of nodes whose stranded worth is remembered."""

NOBODY: AbstractSet[str] = frozenset()


class Stranding:
    """What is stranded, for one outlook."""

    def __init__(self, devices: FreeWorth) -> None:
        self._devices = devices
        self._typical: TypicalHostDemand | None = None
        self._cpu = self._memory = HostCurve(())
        self._short_hosts = ShortHosts(devices, SufficientResources(0, 0))
        self._known: Memo[tuple[int, HostResources], int] = Memo(MOST_KEPT)

    def count(self, typical: TypicalHostDemand, node_classes: NodeClasses) -> None:
        """Take over what pods request beside devices."""
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
        """Return the nodes on which cpu or memory matter: tight ones, all of them to claims greedier than any before."""
        enough = self._short_hosts.enough
        if not enough.cpu and not enough.memory:
            return NOBODY
        own = self._devices.typical(query, node_classes) / UNIT
        if host.requested.cpu > enough.cpu * own or host.requested.memory > enough.memory * own:
            return state.hosts.left.keys()
        self._short_hosts.catch_up(state)
        return self._short_hosts.beside(state, host.taken)

    def change(
        self,
        host: HostDemand,
        left: HostResources,
        node_state: NodeState,
        view: NodeView,
        query: Query,
        picks: tuple[Pick, ...],
    ) -> int:
        """Return what more is stranded on a node once these picks are taken and the pods have come.

        `left`: what the node has beside devices before.
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
