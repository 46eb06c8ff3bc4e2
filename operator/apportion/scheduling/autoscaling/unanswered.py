"""Unanswered: questions that are still to be asked, of each namespace one in turn, so that nobody waits for all of another tenant's.

In: what the questions are about, for whom, and when one was answered. Out: the one whose turn it is. What was answered may rest, so that a question about
many things, of which one changes after the other, is not asked with each of them.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Generic, TypeVar

K = TypeVar("K")


class Unanswered(Generic[K]):
    """Questions, by what they are about, in the order in which they came."""

    def __init__(self, rest: float = 0.0) -> None:
        """`rest`: seconds for which what was answered is not asked again."""
        self._rest = rest
        self._answered: dict[K, float] = {}
        """When those were answered that rest, the first one first."""
        self._later: dict[K, str] = {}
        """Those of them that are to be asked again, with their namespaces."""
        self._namespaces: dict[K, str] = {}
        self._of: dict[str, dict[K, None]] = {}
        """By namespace, the one that had its turn last at the end."""

    def __contains__(self, about: K) -> bool:
        """Say whether it is still to be asked."""
        return about in self._namespaces

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._namespaces)

    def add(self, rows: Iterable[tuple[K, str]]) -> None:
        """Note what is to be asked, each for a namespace, when it does not rest any more; what is to be asked already keeps its place."""
        for about, namespace in rows:
            if about in self._answered:
                self._later[about] = namespace
            elif self._namespaces.setdefault(about, namespace) == namespace:
                self._of.setdefault(namespace, {})[about] = None

    def discard(self, about: K) -> None:
        """Note that nobody asks it any more."""
        self._later.pop(about, None)
        namespace = self._namespaces.pop(about, None)
        if namespace is not None:
            of = self._of[namespace]
            del of[about]
            if not of:
                del self._of[namespace]

    def answered(self, about: K, now: float) -> None:
        """Note that it was answered: it rests."""
        self.discard(about)
        self._answered[about] = now

    def wake(self, now: float) -> None:
        """Let those be asked again whose rest is over."""
        over = takewhile(lambda row: now - row[1] >= self._rest, self._answered.items())
        for about, _ in tuple(over):
            del self._answered[about]
            if about in self._later:
                self.add([(about, self._later.pop(about))])

    def turn(self) -> K | None:
        """Return the first one of the namespace whose turn it is, until it is discarded; None: there is none."""
        namespace = next(iter(self._of), None)
        if namespace is None:
            return None
        of = self._of[namespace] = self._of.pop(namespace)
        return next(iter(of))
