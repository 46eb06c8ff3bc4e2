"""What a node has left, and what a pod asks of it, as far as worth is concerned.

Named tuples, since they are keys of memos in the hottest loop and a dataclass hashes five times slower.
"""

from collections.abc import Iterator
from typing import NamedTuple

WHOLE = 1000
"""Milli of one whole device."""


class Ask(NamedTuple):
    """What a pod asks for."""

    cpu: int
    """Milli cores."""
    devices: int
    """How many devices; 0 for none."""
    milli: int
    """Of each device, in milli; `WHOLE` for whole devices."""
    models: frozenset[str] = frozenset()
    """Models that will do; empty: any."""

    @property
    def size(self) -> int:
        """Return the milli of all its devices together."""
        return self.devices * self.milli


class Free(NamedTuple):
    """What a node has left."""

    cpu: int
    """Milli cores."""
    model: str
    rooms: tuple[int, ...]
    """Milli left on every device."""

    def holds(self, ask: Ask) -> bool:
        """Say whether the pod fits: cores, model, and enough devices with enough room each."""
        if self.cpu < ask.cpu or (ask.models and self.model not in ask.models):
            return False
        return not ask.devices or sum(room >= ask.milli for room in self.rooms) >= ask.devices

    def ways(self, ask: Ask) -> Iterator["Free"]:
        """Yield what is left after each way to place a pod that fits, no two of them alike.

        A pod on one device may go to any that has room; which of several whole devices it takes is immaterial.
        """
        cpu = self.cpu - ask.cpu
        if ask.devices == 0:
            yield Free(cpu, self.model, self.rooms)
        elif ask.devices == 1:
            seen = set()
            for index, room in enumerate(self.rooms):
                if room >= ask.milli and room not in seen:
                    seen.add(room)
                    yield Free(cpu, self.model, self._less(index, ask.milli))
        else:
            left, rooms = ask.devices, list(self.rooms)
            for index, room in enumerate(rooms):
                if left and room >= ask.milli:
                    rooms[index], left = room - ask.milli, left - 1
            yield Free(cpu, self.model, tuple(rooms))

    def ordered(self) -> "Free":
        """Return the same with its rooms in order: nodes that differ in the order of devices only are alike."""
        return Free(self.cpu, self.model, tuple(sorted(self.rooms)))

    def _less(self, index: int, milli: int) -> tuple[int, ...]:
        return (*self.rooms[:index], self.rooms[index] - milli, *self.rooms[index + 1 :])
