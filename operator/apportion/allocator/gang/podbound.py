"""PodBound: how many pods of a gang could have devices together, at most, followed node by node.

In: a state, the kinds of a gang's members. Out: a bound that no search is needed for: a gang that was refused cannot be served before the
bound says so. It counts devices of a node by the whole numbers that members need; devices that serve several claims are not counted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import free_on, least_devices
from apportion.allocator.state import State

_UNBOUNDED = 1_000_000
"""Members that a node could take by its devices, where counting says nothing."""


@dataclass(frozen=True, slots=True)
class GangKind:
    """Members that request the same."""

    demand: Demand
    """What one of them asks for, on whatever nodes."""
    members: int
    """How many there are."""
    pods: int
    """Pods of each."""
    room: Callable[[str], int]
    """For how many members a node has room, devices aside; at most."""


class PodBound:
    """How many of one gang."""

    def __init__(self, state: State, kinds: Sequence[GangKind]) -> None:
        """Raises BrokenInput if a member's claims cannot be served by any state as they are written."""
        self._state = state
        self._kinds = kinds
        self._least = [least_devices(state, kind.demand) for kind in kinds]
        self._members: dict[str, list[int]] = {}
        """Of each kind by node."""
        self._pods: dict[str, int] = {}
        """Of all kinds together, by node."""
        self._sums = [0] * len(kinds)
        self._sum = 0

    @property
    def pods(self) -> int:
        """Return how many pods could have devices, at most."""
        of_kinds = sum(
            min(kind.members, members) * kind.pods
            for kind, members in zip(self._kinds, self._sums, strict=True)
        )
        return min(of_kinds, self._sum)

    def look(self, nodes: Iterable[str]) -> None:
        """Count these nodes anew."""
        for name in nodes:
            members, pods = self._on(name) if name in self._state.names() else ([], 0)
            before = self._members.pop(name, [])
            for number, count in enumerate(before):
                self._sums[number] -= count
            for number, count in enumerate(members):
                self._sums[number] += count
            self._sum += pods - self._pods.pop(name, 0)
            if pods:
                self._members[name], self._pods[name] = members, pods

    def _on(self, name: str) -> tuple[list[int], int]:
        """Return how many members of each kind a node could take, and how many pods of all kinds together."""
        members, devices, most, bounded = list[int](), 0, 0, True
        for kind, least in zip(self._kinds, self._least, strict=True):
            room = kind.room(name)
            free = free_on(self._state, kind.demand, name) if room and least else None
            count = min(room, _UNBOUNDED if free is None else free.bit_count() // least)
            members.append(count)
            if count and free is None:
                bounded = False
            elif count and free is not None:
                devices |= free
                most = max(most, -(-kind.pods * 1_000_000 // least))
        pods = sum(
            min(count, kind.members) * kind.pods for count, kind in zip(members, self._kinds, strict=True)
        )
        # Kinds that want the same devices share them.
        return members, min(pods, devices.bit_count() * most // 1_000_000) if bounded else pods
