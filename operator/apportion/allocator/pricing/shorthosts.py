"""ShortHosts: nodes with too little cpu or memory for their free devices.

In: node states and free cpu and memory, for one changed node at a time. Out: a set of node names. The threshold is rounded up
to a band, so that small changes of the demand keep the set.
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
"""Nodes whose results with more cpu and memory taken are kept."""


class SufficientResources(NamedTuple):
    """Cpu and memory per unit of device value that strand no device."""

    cpu: float
    memory: float

    @classmethod
    def of(cls, cpu: float, memory: float) -> "SufficientResources":
        """Return the upper ends of the bands of these amounts."""
        return cls(_band(cpu), _band(memory))


class TentativeHost(NamedTuple):
    """Whether a node is short once tentative decisions take more than the state has recorded."""

    node_state: NodeState
    left: HostResources
    taken: HostResources
    short: bool


class HostedState(ClusterState, Protocol):
    """The members of the state that this module reads."""

    hosts: HostTable
    node_states: NodeStates


class ShortHosts:
    """The nodes below the threshold."""

    def __init__(self, devices: FreeWorth, enough: SufficientResources) -> None:
        self.enough = enough
        self.nodes: set[str] = set()
        self._devices = devices
        self._cursors = -1, -1
        self._tentative: Memo[str, TentativeHost] = Memo(MOST_KEPT)
        self._latest: tuple[object, Mapping[str, HostResources], AbstractSet[str]] = None, {}, self.nodes
        """The last result of `with_taken`: the cursors and amounts that it holds for, and the nodes."""

    def catch_up(self, state: HostedState) -> None:
        """Test the nodes whose devices, cpu or memory changed."""
        device_end, devices_changed = state.since(self._cursors[0])
        host_end, hosts_changed = state.hosts.since(self._cursors[1])
        self._cursors = device_end, host_end
        if devices_changed is None or hosts_changed is None:
            self.nodes.clear()
            names = set(state.hosts.left)
        else:
            names = {*devices_changed, *hosts_changed}
        known = state.names()
        for name in names:
            left = state.hosts.left.get(name)
            if left is not None and name in known and self._short(state, name, left):
                self.nodes.add(name)
            else:
                self.nodes.discard(name)

    def with_taken(self, state: HostedState, taken: Mapping[str, HostResources]) -> AbstractSet[str]:
        """Return the nodes that are short once these amounts are taken as well."""
        if not taken:
            return self.nodes
        cursors, former, names = self._latest
        if cursors == self._cursors and former is taken:
            return names
        known = state.names()
        found = set(self.nodes)
        for name, more in taken.items():
            left = state.hosts.left.get(name)
            if left is None or name not in known:
                continue
            node_state = state.node_states.of(name)
            kept = self._tentative.get(name)
            if kept is None or kept.node_state is not node_state or kept.left != left or kept.taken != more:
                short = self._short(state, name, left.less(more))
                kept = self._tentative[name] = TentativeHost(node_state, left, more, short)
            if kept.short:
                found.add(name)
        self._latest = self._cursors, taken, found
        return found

    def _short(self, state: HostedState, name: str, left: HostResources) -> bool:
        free = self._devices.free(state.node_states.of(name), state.view(name)) / UNIT
        return left.cpu < self.enough.cpu * free or left.memory < self.enough.memory * free


def _band(amount: float) -> float:
    """Return the upper end of an amount's band: the next power of two in steps of 1 / `STEPS` of the exponent."""
    return float(2 ** (ceil(log2(amount) * STEPS) / STEPS)) if amount > 0 else 0.0
