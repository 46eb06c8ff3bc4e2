"""Unanswered: questions that are still to be asked, of each namespace one in turn, so that nobody waits for all of another tenant's."""

from collections.abc import Iterable
from typing import Generic, TypeVar

K = TypeVar("K")


class Unanswered(Generic[K]):
    """Questions, by what they are about, in the order in which they came."""

    def __init__(self) -> None:
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
        """Note what is to be asked, each for a namespace; what is to be asked already keeps its place."""
        for about, namespace in rows:
            if self._namespaces.setdefault(about, namespace) == namespace:
                self._of.setdefault(namespace, {})[about] = None

    def discard(self, about: K) -> None:
        """Note that it was answered, or that nobody asks any more."""
        namespace = self._namespaces.pop(about, None)
        if namespace is not None:
            of = self._of[namespace]
            del of[about]
            if not of:
                del self._of[namespace]

    def turn(self) -> K | None:
        """Return the first one of the namespace whose turn it is, until it is discarded; None: there is none."""
        namespace = next(iter(self._of), None)
        if namespace is None:
            return None
        of = self._of[namespace] = self._of.pop(namespace)
        return next(iter(of))
