"""The standard library: operators, sizes, conversions and the string predicates (cel-spec "Standard Definitions")."""

import math
from collections.abc import Callable
from typing import Final

from apportion.cel.library import conversions, times
from apportion.cel.library.conversions import unsigned, whole
from apportion.cel.library.equality import STRICT, compare, equal, unequal
from apportion.cel.library.functions import LARGEST_TEXT, Overload, declare, second, size_of, tenth
from apportion.cel.library.lookup import find, find_optional, inside
from apportion.cel.values import INT_MIN, CelFailure, CostExceeded, Value

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
    if one == INT_MIN and other == -1:
        # As the quotient, which does not fit 64 bits (overflow.go `moduloInt64Checked`).
        raise CelFailure("integer overflow")
    return one - other * _quotient(one, other)


def _ratio(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one) or math.isnan(other):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def _searched_list(args: tuple[Value, ...], _: Value) -> int:
    return size_of(args[1])


def _shorter(args: tuple[Value, ...], _: Value) -> int:
    if type(args[0]) in STRICT:
        return 1
    return tenth(min(size_of(args[0]), size_of(args[1])))


def _both(args: tuple[Value, ...], _: Value) -> int:
    return tenth(size_of(args[0]) + size_of(args[1]))


def _product(args: tuple[Value, ...], _: Value) -> int:
    return tenth(size_of(args[0])) * tenth(size_of(args[1]))


def _joined(one: Value, other: Value) -> Value:
    # The reference implementation charges one unit for lists whatever their size, since it copies nothing: forty additions of a list
    # to itself would fill any memory here. The fast form charges nothing.
    if len(one) + len(other) > LARGEST_TEXT:
        raise CostExceeded
    return one + other


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
        pairs = [(one, one) for one in _ORDERED] + [(a, b) for a in _NUMBERS for b in _NUMBERS]
        for one, other in pairs:
            cost = _shorter if one in ("string", "bytes") else None
            out.append(
                declare(f"{name}({one}, {other}) -> bool", lambda a, b, t=test: t(compare(a, b)), cost)
            )
    return out


OVERLOADS = (
    declare("_==_(A, A) -> bool", equal, _shorter),
    declare("_!=_(A, A) -> bool", unequal, _shorter),
    *_arithmetic(),
    declare("_+_(bytes, bytes) -> bytes", _joined, _both),
    declare("_+_(string, string) -> string", _joined, _both),
    declare("_+_(list(A), list(A)) -> list(A)", _joined),
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
    *(declare(f"size({one}) -> int", len) for one in ("bytes", "list(A)", "map(A, B)", "string")),
    *(declare(f"{one} size() -> int", len) for one in ("bytes", "list(A)", "map(A,B)", "string")),
    declare("string contains(string) -> bool", lambda text, part: part in text, _product),
    declare("string startsWith(string) -> bool", str.startswith, second),
    declare("string endsWith(string) -> bool", str.endswith, second),
    *conversions.OVERLOADS,
    *times.OVERLOADS,
)
