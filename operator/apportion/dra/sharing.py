"""Equal parts of objects become one object: a driver writes the same capacities and counters on every device.

In: a part as decoded JSON and a reader. Out: what the reader makes of it, made once per content. Saves most of the time
and memory of reading a cluster; what comes out must not be changed.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import orjson

T = TypeVar("T")

MOST = 65536
"""Parts remembered per table; a full table starts anew."""


class Sharing(Generic[T]):
    """Parts of one type that were read before."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: dict[bytes, T] = {}

    def read(self, raw: Any, at: str, make: Callable[[Any, str], T]) -> T:
        """Return what `make(raw, at)` returns; what it raises is raised every time."""
        try:
            key = orjson.dumps(raw)
        except TypeError:
            return make(raw, at)
        found = self._kept.get(key)
        if found is None:
            found = make(raw, at)
            if len(self._kept) >= self._most:
                self._kept.clear()
            self._kept[key] = found
        return found
