"""Read fields out of decoded JSON: the right type, or an error that names the field.

Foreign objects come from the API server already validated against its own version's schema; a field of an
unexpected type still must not take the operator down, so every reader here raises BrokenInput.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.errors import BrokenInput

Json = Mapping[str, Any]


def text(of: Json, key: str, *, at: str = "", default: str | None = None) -> str:
    """Return the string at `key`; without it, `default`, or BrokenInput when there is none."""
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
    """Return the whole number at `key`."""
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


def rows(of: Json, key: str, *, at: str = "") -> Iterator[tuple[str, Json]]:
    """Yield (path, object) for every entry of the list at `key`; absent means none."""
    for path, value in items(of, key, at=at):
        if not isinstance(value, Mapping):
            raise BrokenInput(f"expected an object, found {_kind(value)}", field=path)
        yield path, value


def words(of: Json, key: str, *, at: str = "") -> tuple[str, ...]:
    """Return the list of strings at `key`; absent means none."""
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


def join(at: str, key: str) -> str:
    """Return the path of a field inside its parent."""
    return f"{at}.{key}" if at else key


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
