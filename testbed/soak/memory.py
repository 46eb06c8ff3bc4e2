"""Whether the memory of a process grows: samples in, growth out.

A process fills its bounded tables in the first quarter of its life, which is not judged. The median of the last quarter is compared with
the median of the second one, so that no single sample decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

LEAST: Final = 120.0
"""Seconds that a process must have lived for to say anything."""
ALLOWED: Final = 16.0
"""MiB by which a process may grow in any case: caches go on filling slowly, and the interpreter keeps what it had at its peak."""
ALLOWED_PER_HOUR: Final = 8.0
"""MiB by which it may grow in an hour beside that."""
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Growth:
    """How the memory of one process developed; sizes in MiB."""

    name: str
    seconds: float
    """Between the middle of the second quarter of its life and that of the last one."""
    first: float
    last: float

    @property
    def per_hour(self) -> float:
        """MiB by which it grew in an hour."""
        return (self.last - self.first) / self.seconds * 3600

    @property
    def leaks(self) -> bool:
        """Say whether that is more than a process may grow."""
        return self.last - self.first > ALLOWED + ALLOWED_PER_HOUR * self.seconds / 3600


def growth(name: str, samples: Sequence[tuple[float, int]]) -> Growth | None:
    """Return what (seconds, bytes) since the start of a process say; None where it did not live long enough."""
    began = samples[0][0]
    life = samples[-1][0] - began
    if life < LEAST:
        return None
    early = [size for at, size in samples if life / 4 <= at - began < life / 2]
    late = [size for at, size in samples if at - began >= life * 3 / 4]
    return Growth(name, life / 2, median(early) / _MIB, median(late) / _MIB) if early else None
