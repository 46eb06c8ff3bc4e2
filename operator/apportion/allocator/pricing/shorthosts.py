"""Nodes with too little cpu or memory for the devices that they have free.

In: how nodes stand and what they have left beside devices, one touched node at a time. Out: a set of names. What counts
as too little is rounded up to a band, so that the set outlives small changes of the demand.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from math import ceil, log2
from typing import NamedTuple, Protocol

from apportion.allocator.equivalence.nodestate import NodeState, NodeStates
from apportion.allocator.facts.host import HostResources, HostTable
from apportion.allocator.memo import Memo
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.scarcity import ClusterState

STEPS = 4
"""Bands per doubling."""

MOST_KEPT = 1 << 16
"""Nodes of which it is remembered what promises leave of them."""


class SufficientResources(NamedTuple):
    """HostResources per device of worth that leave nothing useless."""

    cpu: float
    memory: float

    @classmethod
    def of(cls, cpu: float, memory: float) -> "SufficientResources":
        """Return the bands in which these amounts are."""
        return cls(_band(cpu), _band(memory))


class PromisedHost(NamedTuple):
    """What was found out about a node on which more is taken than the state knows."""

    node_state: NodeState
    left: HostResources
    taken: HostResources
    short: bool


class HostedState(ClusterState, Protocol):
    """What must be known of the state."""

    hosts: HostTable
    node_states: NodeStates


class ShortHosts:
    """The nodes that have less than enough."""

    def __init__(self, devices: FreeWorth, enough: SufficientResources) -> None:
        self.enough = enough
        self.nodes: set[str] = set()
        self._devices = devices
        self._cursors = -1, -1
        self._promised: Memo[str, PromisedHost] = Memo(MOST_KEPT)
        self._beside: tuple[object, Mapping[str, HostResources], AbstractSet[str]] = None, {}, self.nodes
        """The nodes last found with promises: as of these cursors, beside these."""

    def catch_up(self, state: HostedState) -> None:
        """Look at the nodes touched since, by whatever it was."""
        device_end, touched = state.since(self._cursors[0])
        host_end, as_broken_input = state.hosts.since(self._cursors[1])
        self._cursors = device_end, host_end
        if touched is None or as_broken_input is None:
            self.nodes.clear()
            names = set(state.hosts.left)
        else:
            names = {*touched, *as_broken_input}
        known = state.names()
        for name in names:
            left = state.hosts.left.get(name)
            if left is not None and name in known and self._short(state, name, left):
                self.nodes.add(name)
            else:
                self.nodes.discard(name)

    def beside(self, state: HostedState, taken: Mapping[str, HostResources]) -> AbstractSet[str]:
        """Return the nodes that have less than enough once these amounts are taken as well."""
        if not taken:
            return self.nodes
        cursors, former, names = self._beside
        if cursors == self._cursors and former is taken:
            return names
        known = state.names()
        found = set(self.nodes)
        for name, more in taken.items():
            left = state.hosts.left.get(name)
            if left is None or name not in known:
                continue
            node_state = state.node_states.of(name)
            kept = self._promised.get(name)
            if kept is None or kept.node_state is not node_state or kept.left != left or kept.taken != more:
                short = self._short(state, name, left.less(more))
                kept = self._promised[name] = PromisedHost(node_state, left, more, short)
            if kept.short:
                found.add(name)
        self._beside = self._cursors, taken, found
        return found

    def _short(self, state: HostedState, name: str, left: HostResources) -> bool:
        free = self._devices.free(state.node_states.of(name), state.view(name)) / UNIT
        return left.cpu < self.enough.cpu * free or left.memory < self.enough.memory * free


def _band(amount: float) -> float:
    """Return the end of the band in which an amount is: the smallest power of two, in steps, that is no less."""
    return float(2 ** (ceil(log2(amount) * STEPS) / STEPS)) if amount > 0 else 0.0
