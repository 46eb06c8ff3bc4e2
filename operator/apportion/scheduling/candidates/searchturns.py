"""SearchTurns: for how long a walk searches nodes for the demands of one namespace; the next walk goes on where it stopped.

In: searches, as they are needed. Out: their steps, or that a search goes on in the next walk. Several devices take up to some hundredths of
a second on each node that differs from all others, or many slices of that length where their constraints are hard to meet, so the first claim of a kind may take many seconds on a large cluster. What was
searched is kept. Without a bound all others would wait for it, whatever they ask for.
"""

import math
from collections.abc import Callable, Iterator

SHARE = 0.2
"""The part of a walk's longest time for which it searches for one namespace."""


class SearchStopped(Exception):  # noqa: N818 - it is no error: the next walk goes on
    """The search for a demand goes on in the next walk."""


class SearchTurns:
    """The searches of a walk, by namespace."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._longest = math.inf
        """Seconds for which a walk searches for all namespaces."""
        self._spent: dict[str, float] = {}
        """Seconds for which this walk has, by namespace."""
        self._turns: dict[str, str] = {}
        """By namespace, the demand (key) with which its searches go on in this walk: those before it had their turn in the former one."""
        self._following: dict[str, str] = {}
        """The same for the next walk."""
        self.stopped: set[str] = set()
        """The demands (keys) whose search goes on in the next walk, or begins in it."""

    def begin(self, longest: float) -> None:
        """Start a walk that searches for so many seconds at most, and one step; for each namespace for its share of them."""
        # One whose demand did not come up, because it waits no more, begins with its first again.
        self._longest, self._turns, self._following = longest, self._following, {}
        self._spent.clear()
        self.stopped.clear()

    def steps(self, key: str, namespace: str, search: Iterator[object]) -> Iterator[None]:
        """Go on with the search for a demand; yields after each step. Raises SearchStopped once its namespace has had its time in this walk."""
        if self._turns.get(namespace, key) != key:
            self._stop(key)
        self._turns.pop(namespace, None)
        while True:
            if self._spent.get(namespace, 0.0) >= self._longest * SHARE:
                self._following.setdefault(namespace, key)
                self._stop(key)
            if sum(self._spent.values()) >= self._longest:
                self._stop(key)
            began = self._clock()
            more = next(search, search) is not search
            self._spent[namespace] = self._spent.get(namespace, 0.0) + self._clock() - began
            if not more:
                return
            yield

    def _stop(self, key: str) -> None:
        self.stopped.add(key)
        raise SearchStopped(key)
