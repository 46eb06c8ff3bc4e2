"""SearchBudget: what the search of a node may spend, and whether it pauses; PausedSearch: one that goes on when it is asked for again.

In: the steps. Out: the same search, in slices, between which others run. A search that nobody asked for again is dropped by the next one that pauses.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from apportion.allocator.search.outcome import Outcome

STEPS = 20_000
"""Steps on one node before the search ends without a result; a step is a device tried, or as many looks at masks as take as long. About 0.3 s."""
SLICE = 500
"""Steps after which a search may pause: about 0.01 s."""


class Paused(Exception):  # noqa: N818 - it is no error: the search goes on when it is asked for again
    """The search has done a slice of its work, and is kept."""


@dataclass(slots=True)
class PausedSearch:
    """The search that paused last."""

    key: object = None
    """What it depends on: it goes on only where this is the same."""
    slices: Generator[None, None, Outcome] | None = None
    done: int = 0
    """How many slices of it were done."""
    dropped: int = 0
    """Slices of searches that were dropped, because what they depend on changed before they ended; half of them are forgotten whenever one ends."""

    @property
    def given_up(self) -> int:
        """How many whole searches that makes."""
        return self.dropped * SLICE // STEPS

    def take(self, key: object) -> Generator[None, None, Outcome] | None:
        """Return the search with this key, and keep it no more."""
        found = self.slices if self.key == key else None
        if found is not None:
            self.key = self.slices = None
        return found

    def put(self, key: object, slices: Generator[None, None, Outcome], *, goes_on: bool) -> None:
        """Keep a search that paused. `goes_on`: it did so before."""
        if goes_on:
            self.done += 1
        else:
            self.dropped += self.done if self.slices is not None else 0
            self.done = 1
        self.key, self.slices = key, slices

    def ended(self) -> None:
        """Learn that a search ended that had paused."""
        self.dropped //= 2


class SearchBudget(NamedTuple):
    """What one search of a node may do. A named tuple, because one is created per node state."""

    steps: int = STEPS
    """Of all searches together that it takes."""
    paused: PausedSearch | None = None
    """Where it is kept while it pauses; None: it depends on more than the key says, or is made for a comparison."""
    pauses: bool = False
    """Whether it pauses after a slice, with `Paused`; else it goes on to its end."""

    @property
    def cuts_short(self) -> bool:
        """Whether other searches of a ranking left it fewer steps than one may have."""
        return self.paused is not None and self.steps < STEPS


FULL = SearchBudget()
