"""Windows: the nodes that one search for victims looks at, where there are too many; the next one for the same demands goes on behind them.

In: the nodes of a search, in order. Out: some of them, and whether others are left, so that nobody is said to find no victims before all were looked at.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_MOST_KEPT: Final = 1024
"""Rounds that are kept; the oldest begins anew."""


@dataclass(frozen=True, slots=True)
class _Round:
    """How far the nodes were looked at."""

    behind: str
    """The last one."""
    left: int
    """How many were not."""


@dataclass(slots=True)
class Windows:
    """Rounds through the nodes."""

    _rounds: dict[object, _Round] = field(default_factory=dict)
    """By whom they are for."""
    _turn: int = 0
    """Where the next round begins."""

    def after(self, topic: object, names: Sequence[str], most: int) -> tuple[list[str], bool]:
        """Return at most so many of the nodes, behind those that were returned for this topic before (None: nothing is remembered); and whether others are left."""
        known = self._rounds.pop(topic, None)
        if len(names) <= most:
            return [*names], False
        if known is None:
            first, left = self._turn % len(names), len(names)
            self._turn += most
        else:
            first, left = bisect_right(names, known.behind) % len(names), min(known.left, len(names))
        taken = [*names[first:], *names[:first]][: min(most, left)]
        are_left = topic is not None and left > len(taken)
        if are_left:
            if len(self._rounds) >= _MOST_KEPT:
                del self._rounds[next(iter(self._rounds))]
            self._rounds[topic] = _Round(taken[-1], left - len(taken))
        return taken, are_left


@dataclass(slots=True)
class Window:
    """The nodes of one search."""

    windows: Windows
    topic: object
    """Whom it is for; None: it is a look at some nodes alone."""
    are_left: bool = False
    """Whether there are nodes that neither this search nor those before it in the round looked at."""

    def of(self, names: Sequence[str], most: int) -> list[str]:
        """Return at most so many of these nodes."""
        taken, self.are_left = self.windows.after(self.topic, names, most)
        return taken
