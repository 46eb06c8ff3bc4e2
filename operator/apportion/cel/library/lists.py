"""Functions of lists.

Sources: apiserver `library/lists.go`, cel-go `ext/lists.go` (version 3) and `ext/sets.go`, DRA's `includes`.
"""

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Final

from apportion.cel.library import times
from apportion.cel.library.conversions import unsigned, whole
from apportion.cel.library.equality import compare, contains, in_order, ordered, same
from apportion.cel.library.functions import LARGEST, Overload, declare, items, size_of
from apportion.cel.values import CelFailure, CostExceeded, Duration, Uint, Value, no_overload

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_MOST_INCLUDED: Final = 48
"""Values of a list attribute; DRA's `includes` refuses longer lists."""
_MOST_RANGED: Final = 1_000_000
"""Numbers that `lists.range` makes (ext/lists.go `defaultMaxRangeSize`)."""
_SUMS: Final[dict[str, tuple[Value, type, Callable[[Value, Value], Value]]]] = {
    "int": (0, int, lambda a, b: whole(a + b)),
    "uint": (Uint(0), Uint, lambda a, b: unsigned(int(a) + int(b))),
    "double": (0.0, float, lambda a, b: a + b),
    "duration": (Duration(0), Duration, lambda a, b: times.duration(a.nanos + b.nanos)),
}


def _is_sorted(found: tuple[Value, ...]) -> bool:
    _must_have_order(found)
    return not any(_above(one, other) for one, other in pairwise(found))


def _must_have_order(found: tuple[Value, ...]) -> None:
    if not all(map(ordered, found)):
        raise no_overload()


def _above(one: Value, other: Value) -> bool:
    """Say whether one comes after the other; False for two that cannot be compared."""
    try:
        return compare(one, other) > 0
    except CelFailure:
        return False


def _sum(of_type: str) -> Callable[[tuple[Value, ...]], Value]:
    zero, wanted, add = _SUMS[of_type]

    def total(found: tuple[Value, ...]) -> Value:
        # A list of dyn may hold another type than the chosen form says; the first item decides.
        start, of, plus = zero, wanted, add
        if found and type(found[0]) is not of:
            start, of, plus = next((row for row in _SUMS.values() if row[1] is type(found[0])), _SUMS["int"])
        for item in found:
            if type(item) is not of:
                raise no_overload()
            start = plus(start, item)
        return start

    return total


def _extreme(name: str, *, largest: bool) -> Callable[[tuple[Value, ...]], Value]:
    def choose(found: tuple[Value, ...]) -> Value:
        if not found:
            raise CelFailure(f"{name} called on empty list")
        _must_have_order(found)
        best = found[0]
        for item in found[1:]:
            if _above(item, best) if largest else _above(best, item):
                best = item
        return best

    return choose


def _index_of(found: tuple[Value, ...], wanted: Value) -> int:
    return next((at for at, item in enumerate(found) if same(item, wanted)), -1)


def _last_index_of(found: tuple[Value, ...], wanted: Value) -> int:
    return next((at for at in reversed(range(len(found))) if same(found[at], wanted)), -1)


def _includes(target: Value, wanted: Value) -> bool:
    if type(target) is not tuple:
        return same(target, wanted)
    if contains(wanted, target[:_MOST_INCLUDED]):
        return True
    if len(target) > _MOST_INCLUDED:
        raise CelFailure(
            f"'includes' function cannot be applied to lists longer than {_MOST_INCLUDED} values"
        )
    return False


def _slice(found: tuple[Value, ...], start: int, end: int) -> tuple[Value, ...]:
    if start < 0 or end < 0:
        raise CelFailure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelFailure(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(found) < end:
        raise CelFailure(f"cannot slice({start}, {end}), list is length {len(found)}")
    return found[start:end]


def _flatten(found: tuple[Value, ...], depth: int = 1) -> tuple[Value, ...]:
    """Flatten nested lists `depth` levels deep; raises CelFailure for a negative depth."""
    if depth < 0:
        raise CelFailure("level must be non-negative")
    while depth > 0 and any(type(item) is tuple for item in found):
        if sum(len(item) if type(item) is tuple else 1 for item in found) > LARGEST:
            raise CostExceeded
        found = tuple(inner for item in found for inner in (item if type(item) is tuple else (item,)))
        depth -= 1
    return found


def _sort(found: tuple[Value, ...]) -> tuple[Value, ...]:
    if not all(map(ordered, found)):
        raise CelFailure("list elements must be comparable")
    return tuple(sorted(found, key=cmp_to_key(in_order)))


def _distinct(found: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(found) ** 2 > 2 * LARGEST:
        raise CostExceeded
    kept: list[Value] = []
    for item in found:
        if not any(same(item, other) for other in kept):
            kept.append(item)
    return tuple(kept)


def _range(count: int) -> tuple[int, ...]:
    # Both errors are those of cel-go 0.29, which Kubernetes 1.37 has.
    if count < 0:
        raise CelFailure(f"lists.range: size must be non-negative, got {count}")
    if count > _MOST_RANGED:
        raise CelFailure(f"lists.range: size {count} exceeds maximum allowed ({_MOST_RANGED})")
    return tuple(range(count))


def _superset(found: tuple[Value, ...], wanted: tuple[Value, ...]) -> bool:
    return all(contains(item, found) for item in wanted)


def _product(args: tuple[Value, ...], _: Value) -> int:
    return 1 + size_of(args[0]) * size_of(args[1])


def _two_products(args: tuple[Value, ...], _: Value) -> int:
    return 1 + 2 * size_of(args[0]) * size_of(args[1])


def _made(_: tuple[Value, ...], made: Value) -> int:
    return 11 + size_of(made)


def _squared(args: tuple[Value, ...], made: Value) -> int:
    return 11 + size_of(args[0]) * max(1, size_of(made))


def _each() -> tuple[Overload, ...]:
    out = []
    for item in _COMPARABLE:
        out += [
            declare(f"list({item}) isSorted() -> bool", _is_sorted, items),
            declare(f"list({item}) min() -> {item}", _extreme("min", largest=False), items),
            declare(f"list({item}) max() -> {item}", _extreme("max", largest=True), items),
            declare(f"list({item}) sort() -> list({item})", _sort, _squared),
        ]
    return (*out, *(declare(f"list({item}) sum() -> {item}", _sum(item), items) for item in _SUMS))


OVERLOADS = (
    *_each(),
    declare("list(A) indexOf(A) -> int", _index_of, items),
    declare("list(A) lastIndexOf(A) -> int", _last_index_of, items),
    declare("dyn includes(dyn) -> bool", _includes, items),
    declare("list(T) slice(int, int) -> list(T)", _slice, _made),
    declare("list(list(T)) flatten() -> list(T)", _flatten, _made, grows=True),
    declare("list(dyn) flatten(int) -> list(dyn)", _flatten, _made, grows=True),
    declare("list(T) reverse() -> list(T)", lambda found: found[::-1], _made),
    declare("list(T) distinct() -> list(T)", _distinct, _squared),
    declare("lists.range(int) -> list(int)", _range, _made, grows=True),
    declare("sets.contains(list(T), list(T)) -> bool", _superset, _product),
    declare(
        "sets.equivalent(list(T), list(T)) -> bool",
        lambda a, b: _superset(a, b) and _superset(b, a),
        _two_products,
    ),
    declare(
        "sets.intersects(list(T), list(T)) -> bool",
        lambda a, b: any(contains(item, b) for item in a),
        _product,
    ),
)
