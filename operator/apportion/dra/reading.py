"""Readers of fields in decoded JSON: a value of the right type, or BrokenInput naming the field.

The API server has validated objects against its own version's schema. A field of another type must still not end the
operator, so every reader checks.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import orjson

from apportion.errors import BrokenInput

Json = Mapping[str, Any]
_T = TypeVar("_T")
_DEEPEST = 100
"""Levels of objects and lists in each other; orjson writes 254."""
_INT64 = re.compile(r"([+-]?)0*([0-9]{1,19})")
"""Python reads 1_000, which a label may be, and more; of digits beyond some thousand it reads none."""
_MOST_SHARED = 65536
"""Parts that one `Sharing` keeps; a full one is emptied."""
_MEAN = 1024
"""Bytes of JSON that these have on average at most: one part may have a megabyte."""


def text(of: Json, key: str, *, at: str = "", default: str | None = None) -> str:
    """Return the string at `key`; when absent, `default`. Raises BrokenInput."""
    value = of.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise BrokenInput(f"expected a string, found {_kind(value)}", field=join(at, key))
    return value


def flag(of: Json, key: str, *, at: str = "") -> bool:
    """Return the boolean at `key`; absent means False."""
    value = of.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BrokenInput(f"expected true or false, found {_kind(value)}", field=join(at, key))
    return value


def number(of: Json, key: str, *, at: str = "", default: int | None = None) -> int:
    """Return the whole number at `key`; when absent, `default`. Raises BrokenInput."""
    value = of.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise BrokenInput(f"expected a whole number, found {_kind(value)}", field=join(at, key))
    return value


def table(of: Json, key: str, *, at: str = "") -> Json:
    """Return the object at `key`; absent means empty."""
    value = of.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BrokenInput(f"expected an object, found {_kind(value)}", field=join(at, key))
    return value


def opaque(of: Json, key: str, *, at: str = "") -> Json | None:
    """Return the driver's parameters at `key`, of any form; None when absent.

    Raises BrokenInput where the driver is no text, and where they are too deep for Python to compare or orjson to write.
    """
    if of.get(key) is None:
        return None
    found = dict(table(of, key, at=at))
    text(found, "driver", at=join(at, key), default="")
    inside: list[Any] = [found]
    for _ in range(_DEEPEST):
        inside = [part for each in inside for part in _parts(each)]
        if not inside:
            return found
    raise BrokenInput(f"objects and lists are nested more than {_DEEPEST} levels deep", field=join(at, key))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def rows(of: Json, key: str, *, at: str = "") -> Iterator[tuple[str, Json]]:
    """Yield (path, object) for every entry of the list at `key`; absent means none."""
    for path, value in items(of, key, at=at):
        if not isinstance(value, Mapping):
            raise BrokenInput(f"expected an object, found {_kind(value)}", field=path)
        yield path, value


def words(of: Json, key: str, *, at: str = "") -> tuple[str, ...]:
    """Return the list of strings at `key`; absent means none."""
    value = of.get(key)
    if isinstance(value, list) and {*map(type, value)} <= {str}:
        return tuple(value)  # there may be a hundred thousand
    found = []
    for path, value in items(of, key, at=at):
        if not isinstance(value, str):
            raise BrokenInput(f"expected a string, found {_kind(value)}", field=path)
        found.append(value)
    return tuple(found)


def items(of: Json, key: str, *, at: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) for every entry of the list at `key`; absent means none."""
    value = of.get(key)
    if value is None:
        return
    if not isinstance(value, list):
        raise BrokenInput(f"expected a list, found {_kind(value)}", field=join(at, key))
    for index, entry in enumerate(value):
        yield f"{join(at, key)}[{index}]", entry


def int64(text: str) -> int | None:
    """Return the number that a text is for Go's `strconv.ParseInt(text, 10, 64)`; None where that fails."""
    found = _INT64.fullmatch(text)
    number = int(found[1] + found[2]) if found else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def join(at: str, key: str) -> str:
    """Return the path of a field inside its parent."""
    return f"{at}.{key}" if at else key


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


class Sharing(Generic[_T]):
    """Parts of one type that were read before, by their JSON: drivers repeat capacities and counters on every device.

    Equal parts become one object, which saves most of the time and memory of reading a cluster. They must not be changed.
    """

    def __init__(self, most: int = _MOST_SHARED) -> None:
        self._most = most
        self._kept: dict[bytes, _T] = {}
        self._size = 0
        """Bytes of JSON that are kept."""

    def read(self, raw: Any, at: str, make: Callable[[Any, str], _T]) -> _T:
        """Return what `make(raw, at)` returns; what it raises is raised every time."""
        try:
            key = orjson.dumps(raw)
        except TypeError:
            return make(raw, at)
        found = self._kept.get(key)
        if found is None:
            found = make(raw, at)
            if len(self._kept) >= self._most or self._size + len(key) > self._most * _MEAN:
                self._kept.clear()
                self._size = 0
            self._size += len(key)
            # A copy, because what orjson returns holds the whole buffer that it wrote into: kilobytes for some hundred bytes.
            self._kept[bytes(memoryview(key))] = found
        return found
