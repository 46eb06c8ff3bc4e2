"""Pauses: how long what has failed waits until it is tried anew.

In: failures, the clock. Out: what pauses now. Each pause is twice as long as the one before, unless nothing has failed since that for as long as the longest pause:
what is not tried at the moment, because its devices are taken or nobody knows what became of its write, has not succeeded.
"""

from collections.abc import Callable


class Pauses:
    """Pauses by a key, as the UID of what is written."""

    def __init__(self, clock: Callable[[], float], *, first: float, longest: float) -> None:
        """`first` and `longest`: seconds."""
        self._clock = clock
        self._first = first
        self._longest = longest
        self._known: dict[str, tuple[float, float]] = {}
        """Until when each lasts, and how long it is."""
        self._most = 64
        """Number of pauses at which those that no longer count are forgotten."""

    def __contains__(self, key: str) -> bool:
        """Say whether something pauses now."""
        found = self._known.get(key)
        return found is not None and found[0] > self._clock()

    def begin(self, key: str, least: float = 0.0) -> float:
        """Let something that has failed pause, for `least` seconds at least; returns for how many seconds."""
        now = self._clock()
        until, last = self._known.get(key, (now, 0.0))
        if now > until + self._longest:
            last = 0.0
        seconds = max(min(2 * last or self._first, self._longest), least)
        self._known[key] = now + seconds, seconds
        if len(self._known) > self._most:
            self._known = {key: each for key, each in self._known.items() if now <= each[0] + self._longest}
            self._most = max(64, 2 * len(self._known))
        return seconds

    def end(self, key: str) -> None:
        """Forget that something has failed: it has succeeded."""
        self._known.pop(key, None)
