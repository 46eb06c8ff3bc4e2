"""Pace: how much of a tenant's objects one looks at before others run.

In: what was looked at. Out: whether it was enough for now. A tenant may make thousands of pods and claims that hang together, and whatever
goes through all of them at once keeps the lease, the watches and everybody else's claims waiting.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
AT_ONCE = 64
"""Pods and claims; a few millionths of a second each."""


class Pace:
    """Counts what was looked at."""

    def __init__(self, most: int = AT_ONCE) -> None:
        self._most = most
        self._looked = 0

    def rests(self, looked: int = 1) -> bool:
        """Count what was looked at, and say whether others may run now."""
        self._looked += looked
        if self._looked < self._most:
            return False
        self._looked = 0
        return True


class Changed(Generic[K]):
    """Objects that changed, by UID or name, which are looked at in steps: steps that are abandoned lose none of them."""

    def __init__(self) -> None:
        self._left: dict[K, None] = {}

    def __len__(self) -> int:
        """Return how many are left."""
        return len(self._left)

    def steps(self, more: Iterable[K], look: Callable[[K], int | None]) -> Iterator[None]:
        """Look at each of those that were left and of `more`; yields where others may run.

        `look` returns how much was looked at, if that differs from one to the other.
        """
        self._left.update(dict.fromkeys(more))
        looked = 0
        for key in tuple(self._left):
            if looked >= AT_ONCE:
                looked = 0
                yield
            self._left.pop(key, None)
            looked += look(key) or 1
        if not self._left:
            self._left = {}
