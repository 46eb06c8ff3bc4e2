"""Rotation: which of many things are looked at in this round.

In: what there is, at each round. Out: a part of it, those first that were not looked at for longest. Each has its turn within
`ROUNDS` rounds, and a round of few looks at all of them.
"""

from collections.abc import Hashable, Sequence
from math import ceil
from typing import Final, TypeVar

K = TypeVar("K", bound=Hashable)
LEAST: Final = 10
"""How many have their turn in a round at least, if there are so many."""
ROUNDS: Final = 6
"""Rounds within which each has its turn, however many there are."""


class Rotation:
    """Remembers when each was looked at."""

    def __init__(self) -> None:
        """Nothing was looked at yet."""
        self._round = 0
        self._looked: dict[Hashable, int] = {}
        """The last round of each."""

    def next(self, keys: Sequence[K]) -> Sequence[K]:
        """Return those whose turn it is: those that wait longest, in the order given."""
        self._round += 1
        waiting = sorted(keys, key=lambda key: self._looked.get(key, 0))
        due = waiting[: max(LEAST, ceil(len(keys) / ROUNDS))]
        now = self._round
        self._looked = {key: now if key in due else self._looked.get(key, 0) for key in keys}
        return due
