"""Whether the memory of a process grows: samples in, growth out.

A process may fill its caches for a while (`WARM_UP` seconds). After that the median of the last quarter of its samples is compared with the
median of the first quarter, so that no single sample decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

WARM_UP: Final = 30.0
"""Seconds after the start of a process whose samples do not count."""
LEAST: Final = 30.0
"""Seconds of samples that are needed to say anything."""
ALLOWED: Final = 16.0
"""MiB by which a process may grow in any case: caches go on filling slowly, and the interpreter keeps what it had at its peak."""
ALLOWED_PER_HOUR: Final = 8.0
"""MiB by which it may grow in an hour beside that."""
_QUARTER: Final = 0.25
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Growth:
    """How the memory of one process developed after its warm-up; sizes in MiB."""

    name: str
    seconds: float
    first: float
    last: float

    @property
    def per_hour(self) -> float:
        """MiB by which it grew in an hour."""
        between_the_medians = self.seconds * (1 - _QUARTER)
        return (self.last - self.first) / between_the_medians * 3600

    @property
    def leaks(self) -> bool:
        """Say whether that is more than a process may grow."""
        return self.last - self.first > ALLOWED + ALLOWED_PER_HOUR * self.seconds / 3600


def growth(name: str, samples: Sequence[tuple[float, int]]) -> Growth | None:
    """Return what (seconds, bytes) since the start of a process say; None where it did not live long enough."""
    warm = [(at, size) for at, size in samples if at - samples[0][0] >= WARM_UP]
    if not warm or warm[-1][0] - warm[0][0] < LEAST:
        return None
    quarter = max(int(len(warm) * _QUARTER), 1)
    first, last = (median(size for _, size in rows) / _MIB for rows in (warm[:quarter], warm[-quarter:]))
    return Growth(name, warm[-1][0] - warm[0][0], first, last)
