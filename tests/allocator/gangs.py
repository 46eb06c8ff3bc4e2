"""Gangs on nodes of four devices, for tests of how their members are placed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from apportion.allocator.demand import Demand
from apportion.allocator.finished import finished
from apportion.allocator.gang.count import count_devices
from apportion.allocator.gang.domains import GroupLadder
from apportion.allocator.gang.members import (
    DeviceShortage,
    DomainShortage,
    GangRefused,
    GangServed,
    Member,
)
from apportion.allocator.gang.place import place_gang
from apportion.allocator.gang.placed import PlacedMembers
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, claim, cluster, device, device_request, device_slice


def fleet(**free: int) -> State:
    """Return nodes of four devices with these numbers of free devices."""
    state = cluster(
        *(device_slice(name, name, [device(f"gpu-{index}") for index in range(4)]) for name in free),
        nodes=tuple(free),
    )
    for name, count in free.items():
        state.hold(
            name, [DeviceResult("r", DeviceId(GPU, name, f"gpu-{index}")) for index in range(4 - count)]
        )
    return state


@dataclass
class Demands:
    """One claim per member, with so many devices each."""

    state: State
    counts: Sequence[int]
    nodes: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Allowed nodes by member."""
    at_most: int | None = None
    """Members that a node has room for beside devices; None: for any number."""
    kinds: Mapping[int, str] = field(default_factory=dict)
    """The kind of device that a member wants, if not a GPU."""
    company: Mapping[int, int] = field(default_factory=dict)
    """Members that have to be on the node of another one."""
    asked: int = 0
    """How often a member's demand was asked for."""
    served: dict[int, str] = field(default_factory=dict)

    def of(self, member: int) -> Demand | None:
        self.asked += 1
        allowed = self.nodes.get(member, frozenset(self.state.names()))
        if member in self.company:
            allowed &= {self.served.get(self.company[member], "")}
        if self.at_most is not None:
            there = Counter(self.served.values())
            allowed = frozenset(node for node in allowed if there[node] < self.at_most)
        request = device_request(kind=self.kinds.get(member, "gpu"), count=self.counts[member])
        return Demand((claim(f"c{member}", request),), allowed) if allowed else None

    def serve(self, member: int, node: str) -> None:
        self.served[member] = node

    def release(self, member: int) -> None:
        del self.served[member]

    def room(self, member: int, node: str) -> int:
        return 4 if node in self.nodes.get(member, (node,)) else 0

    def awaits(self, member: int) -> bool:
        return member in self.company

    def lost(self) -> list[int]:
        return []


Answer: TypeAlias = GangServed | GangRefused | DeviceShortage | DomainShortage


def answer_of(
    demands: Demands,
    members: Sequence[Member],
    enough: int,
    *,
    most: int | None = None,
    ladder: GroupLadder | None = None,
) -> Answer:
    """Count devices, then place the members without a pause."""
    counted = count_devices(demands.state, members, demands, enough=enough)
    if isinstance(counted, DeviceShortage):
        return counted
    with PlacedMembers(demands.state, demands) as placed:
        return finished(place_gang(placed, members, enough=enough, most=most, ladder=ladder))
