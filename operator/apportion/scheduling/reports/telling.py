"""Telling: what is so for many objects, told once, and again as long as it is so.

In: everything that is so now. Out: what is to be told in this pass. A tenant may make thousands of objects that cannot be served: telling of each in
every pass would keep everybody else waiting.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")
AT_ONCE: Final = 256
"""What is told in one pass at most: a few milliseconds."""
PAUSE: Final = 10.0
"""Seconds after which it is told again: an Event that could not be written is recorded anew, and the count of one that was grows now and then (`Recorder`)."""


class Telling(Generic[T]):
    """Remembers by identity what was told: what changed is another object."""

    def __init__(self, clock: Callable[[], float], about: Callable[[T], object] = lambda each: each) -> None:
        """`about` returns the object whose identity counts, which something else may be made of anew in every pass."""
        self._clock = clock
        self._about = about
        self._reported: dict[int, tuple[T, float]] = {}
        """By `id` of what it is about, with the time; the longest ago first."""

    def due(self, now_so: Iterable[T]) -> Iterator[T]:
        """Yield what is to be told now: what came last first, then what was told long ago. The rest is due in the next passes."""
        current = {id(self._about(each)): each for each in now_so}
        new = [key for key in current if key not in self._reported]
        if len(current) - len(new) < len(self._reported):
            self._reported = {key: row for key, row in self._reported.items() if key in current}
        chosen = new[: -AT_ONCE - 1 : -1]
        now = self._clock()
        for key, (_, at) in self._reported.items():
            if len(chosen) >= AT_ONCE or now - at < PAUSE:
                break
            chosen.append(key)
        for key in chosen:
            self._reported.pop(key, None)
            self._reported[key] = current[key], now
            yield current[key]
