"""The standard library: operators, sizes, conversions and the string predicates (cel-spec "Standard Definitions")."""

import math
from collections.abc import Callable
from typing import Final

from apportion.cel.equality import CHOOSY, compare, contains, equal, unequal
from apportion.cel.functions import Overload, declare, second, size_of, tenth
from apportion.cel.library import conversions, times
from apportion.cel.library.conversions import unsigned, whole
from apportion.cel.values import (
    NO_NAMES,
    CelFailure,
    Domains,
    Optional,
    Uint,
    Value,
    key_of,
    name_of,
    no_overload,
    shown,
)

_ORDERED: Final = ("bool", "string", "bytes", "timestamp", "duration")
_NUMBERS: Final = ("int", "uint", "double")


def _quotient(one: int, other: int) -> int:
    if other == 0:
        raise CelFailure("division by zero")
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise CelFailure("modulus by zero")
    return one - other * _quotient(one, other)


def _ratio(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one) or math.isnan(other):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def find(container: Value, key: Value) -> Value:
    """Return `container[key]`; raises CelFailure when there is none."""
    kind = type(container)
    if kind is Domains:
        if type(key) is not str:
            raise no_overload()
        return container.get(key, NO_NAMES)
    if kind is dict:
        try:
            return container[key_of(key)]
        except (KeyError, TypeError):
            raise CelFailure(f"no such key: {shown(key)}") from None
    if kind is tuple:
        position = _position(key)
        if 0 <= position < len(container):
            return container[position]
        raise CelFailure(f"index out of bounds: {position}")
    if kind is Optional:
        return find_optional(container, key)
    raise no_overload()


def find_optional(container: Value, key: Value) -> Optional:
    """Return what `container[?key]` gives: the value if there is one."""
    kind = type(container)
    if kind is Optional:
        return find_optional(container.value, key) if container.present else container
    if kind is Domains:
        return Optional(find(container, key))
    if kind is dict:
        name = key_of(key)
        try:
            return Optional(container[name]) if name in container else Optional(None, present=False)
        except TypeError:
            return Optional(None, present=False)
    if kind is tuple:
        position = _position(key)
        if 0 <= position < len(container):
            return Optional(container[position])
        return Optional(None, present=False)
    # A value without parts has none of them, whatever they are called.
    return Optional(None, present=False)


def has(container: Value, name: str) -> bool:
    """Return what `has(container.name)` gives. A map of domains always has every name (DRA's rule)."""
    kind = type(container)
    if kind is dict:
        return name in container
    if kind is Domains:
        return True
    if kind is Optional:
        return container.present and has(container.value, name)
    if kind is tuple:
        raise no_overload()
    return False


def inside(needle: Value, container: Value) -> bool:
    """Return what `needle in container` gives."""
    kind = type(container)
    if kind is tuple:
        return contains(needle, container)
    if kind is dict or kind is Domains:
        try:
            return key_of(needle) in container
        except TypeError:
            return False
    raise no_overload()


def _position(key: Value) -> int:
    if type(key) in (int, Uint) or (type(key) is float and key.is_integer()):
        return int(key)
    raise CelFailure(f"unsupported index type '{name_of(key)}' in list")


def _searched_list(args: tuple[Value, ...], _: Value) -> int:
    return size_of(args[1])


def _shorter(args: tuple[Value, ...], _: Value) -> int:
    if type(args[0]) in CHOOSY:
        return 1
    return tenth(min(size_of(args[0]), size_of(args[1])))


def _both(args: tuple[Value, ...], _: Value) -> int:
    return tenth(size_of(args[0]) + size_of(args[1]))


def _product(args: tuple[Value, ...], _: Value) -> int:
    return tenth(size_of(args[0])) * tenth(size_of(args[1]))


def _arithmetic() -> list[Overload]:
    operators: list[tuple[str, Callable[[int, int], int], Callable[[float, float], float] | None]] = [
        ("_+_", lambda a, b: a + b, lambda a, b: a + b),
        ("_-_", lambda a, b: a - b, lambda a, b: a - b),
        ("_*_", lambda a, b: a * b, lambda a, b: a * b),
        ("_/_", _quotient, _ratio),
        ("_%_", _remainder, None),
    ]
    out = []
    for name, exact, real in operators:
        out.append(declare(f"{name}(int, int) -> int", lambda a, b, f=exact: whole(f(a, b))))
        out.append(declare(f"{name}(uint, uint) -> uint", lambda a, b, f=exact: unsigned(f(int(a), int(b)))))
        if real is not None:
            out.append(declare(f"{name}(double, double) -> double", real))
    return out


def _comparisons() -> list[Overload]:
    tests: list[tuple[str, Callable[[int], bool]]] = [
        ("_<_", lambda c: c < 0),
        ("_<=_", lambda c: c <= 0),
        ("_>_", lambda c: c > 0),
        ("_>=_", lambda c: c >= 0),
    ]
    out = []
    for name, test in tests:
        pairs = [(kind, kind) for kind in _ORDERED] + [(a, b) for a in _NUMBERS for b in _NUMBERS]
        for one, other in pairs:
            cost = _shorter if one in ("string", "bytes") else None
            out.append(
                declare(f"{name}({one}, {other}) -> bool", lambda a, b, t=test: t(compare(a, b)), cost)
            )
    return out


def _size(value: Value) -> int:
    return len(value)


OVERLOADS = (
    declare("_==_(A, A) -> bool", equal, _shorter),
    declare("_!=_(A, A) -> bool", unequal, _shorter),
    *_arithmetic(),
    declare("_+_(bytes, bytes) -> bytes", lambda a, b: a + b, _both),
    declare("_+_(string, string) -> string", lambda a, b: a + b, _both),
    declare("_+_(list(A), list(A)) -> list(A)", lambda a, b: a + b),
    declare("_+_(duration, duration) -> duration", lambda a, b: times.duration(a.nanos + b.nanos)),
    declare("_+_(duration, timestamp) -> timestamp", lambda a, b: times.timestamp(a.nanos + b.nanos)),
    declare("_+_(timestamp, duration) -> timestamp", lambda a, b: times.timestamp(a.nanos + b.nanos)),
    declare("_-_(duration, duration) -> duration", lambda a, b: times.duration(a.nanos - b.nanos)),
    declare("_-_(timestamp, duration) -> timestamp", lambda a, b: times.timestamp(a.nanos - b.nanos)),
    declare("_-_(timestamp, timestamp) -> duration", lambda a, b: times.duration(a.nanos - b.nanos)),
    declare("-_(int) -> int", lambda a: whole(-a)),
    declare("-_(double) -> double", lambda a: -a),
    *_comparisons(),
    declare("_[_](list(A), int) -> A", find),
    declare("_[_](map(A, B), A) -> B", find),
    declare("_[_](optional(list(A)), int) -> optional(A)", find_optional),
    declare("_[_](optional(map(A, B)), A) -> optional(B)", find_optional),
    declare("_[?_](list(A), int) -> optional(A)", find_optional),
    declare("_[?_](optional(list(A)), int) -> optional(A)", find_optional),
    declare("_[?_](map(A, B), A) -> optional(B)", find_optional),
    declare("_[?_](optional(map(A, B)), A) -> optional(B)", find_optional),
    declare("@in(A, list(A)) -> bool", inside, _searched_list),
    declare("@in(A, map(A, B)) -> bool", inside),
    *(declare(f"size({kind}) -> int", _size) for kind in ("bytes", "list(A)", "map(A, B)", "string")),
    *(declare(f"{kind} size() -> int", _size) for kind in ("bytes", "list(A)", "map(A,B)", "string")),
    declare("string contains(string) -> bool", lambda text, part: part in text, _product),
    declare("string startsWith(string) -> bool", str.startswith, second),
    declare("string endsWith(string) -> bool", str.endswith, second),
    *conversions.OVERLOADS,
    *times.OVERLOADS,
)
