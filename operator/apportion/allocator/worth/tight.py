"""Nodes with too little cpu or memory for the devices that they have free.

In: how nodes stand and what they have left beside devices, one touched node at a time. Out: a set of names. What counts
as too little is rounded up to a band, so that the set outlives small changes of the demand.
"""

from math import ceil, log2
from typing import NamedTuple, Protocol

from apportion.allocator.host import Hosts
from apportion.allocator.standing import Standing
from apportion.allocator.worth.cutting import UNIT
from apportion.allocator.worth.devices import Devices
from apportion.allocator.worth.supply import Cluster

STEPS = 4
"""Bands per doubling."""


class Enough(NamedTuple):
    """Amounts per device of worth that leave nothing useless."""

    cpu: float
    memory: float

    @classmethod
    def of(cls, cpu: float, memory: float) -> "Enough":
        """Return the bands in which these amounts are."""
        return cls(_band(cpu), _band(memory))


class Stood(Cluster, Protocol):
    """What must be known of the state."""

    hosts: Hosts

    def standing(self, name: str) -> Standing:
        """Return where a node stands."""
        ...


class Tight:
    """The nodes that have less than enough."""

    def __init__(self, devices: Devices, enough: Enough) -> None:
        self.enough = enough
        self.nodes: set[str] = set()
        self._devices = devices
        self._cursors = -1, -1

    def catch_up(self, state: Stood) -> None:
        """Look at the nodes touched since, by whatever it was."""
        device_end, touched = state.since(self._cursors[0])
        host_end, told = state.hosts.since(self._cursors[1])
        self._cursors = device_end, host_end
        if touched is None or told is None:
            self.nodes.clear()
            names = set(state.hosts.left)
        else:
            names = {*touched, *told}
        known = state.names()
        for name in names:
            left = state.hosts.left.get(name)
            if left is not None and name in known:
                free = self._devices.free(state.standing(name), state.view(name)) / UNIT
                if left.cpu < self.enough.cpu * free or left.memory < self.enough.memory * free:
                    self.nodes.add(name)
                    continue
            self.nodes.discard(name)


def _band(amount: float) -> float:
    """Return the end of the band in which an amount is: the smallest power of two, in steps, that is no less."""
    return float(2 ** (ceil(log2(amount) * STEPS) / STEPS)) if amount > 0 else 0.0
