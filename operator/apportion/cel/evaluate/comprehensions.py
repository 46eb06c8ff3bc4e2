"""Comprehensions: the macros that iterate over a list or the keys of a map.

Costs are those of the loops to which the reference implementation expands the macros (accumulator look-ups, conditions and
list building included), so that the cost limit ends the same evaluations.
"""

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import Any, Final, TypeAlias

from apportion.cel.evaluate.closures import Closure, Run
from apportion.cel.library.equality import in_order, ordered
from apportion.cel.values import GO_NAMES, CelFailure, Domains, Value, key_of, name_of, no_overload, value_of

Fold: TypeAlias = Callable[[Run, Iterator[None]], Value]
"""Computes the result; every step of the iterator binds the variables to the next values."""
_APPEND: Final = 12
"""`accu + [item]`: the accumulator, a new list, the addition."""


def items_of(source: Value) -> Any:
    """Return the values of one variable; raises CelFailure for a source that is no list or map."""
    cls = type(source)
    if cls is tuple:
        return source
    if cls is dict:
        return [value_of(key) for key in source]
    if cls is Domains:
        return list(source)
    raise CelFailure(f"got '{_go_name(source)}', expected iterable type")


def pairs_of(source: Value) -> Any:
    """Return the values of two variables: index and item, or key and value; raises CelFailure as `items_of`."""
    cls = type(source)
    if cls is tuple:
        return enumerate(source)
    if cls is dict or cls is Domains:
        return [(value_of(key), value) for key, value in source.items()]
    raise CelFailure(f"unsupported comprehension range type: {_go_name(source)}")


def comprehension(
    kind: str, source: Closure, slot: int, variables: int, bodies: tuple[Closure, ...], *, constant: bool
) -> Closure:
    """Return the closure of a comprehension; `constant`: the last body is a constant, which is cheaper to append."""
    fold = _FOLDS[kind](slot, bodies, _APPEND - 10 if constant else _APPEND)
    if variables == 1:

        def single(run: Run) -> Value:
            return fold(run, _bound(run, slot, items_of(source(run))))

        return single

    def double(run: Run) -> Value:
        return fold(run, _bound_pairs(run, slot, pairs_of(source(run))))

    return double


def _bound(run: Run, slot: int, items: Any) -> Iterator[None]:
    slots = run.slots
    for item in items:
        slots[slot] = item
        yield


def _bound_pairs(run: Run, slot: int, pairs: Any) -> Iterator[None]:
    slots = run.slots
    for one, other in pairs:
        slots[slot] = one
        slots[slot + 1] = other
        yield


def _true(value: Value) -> bool:
    if type(value) is not bool:
        raise no_overload()
    return value


def _quantifier(stop: bool, condition: int) -> Callable[[int, tuple[Closure, ...], int], Fold]:  # noqa: FBT001
    def make(_: int, bodies: tuple[Closure, ...], __: int) -> Fold:
        body = bodies[0]

        def quantify(run: Run, rounds: Iterator[None]) -> Value:
            failure: CelFailure | None = None
            decided = False
            for _ in rounds:
                run.spend(condition + (0 if decided else 1))
                if decided:
                    break
                try:
                    decided = _true(body(run)) is stop
                except CelFailure as error:
                    failure = failure or error
            run.spend(1)
            if decided:
                return stop
            if failure is not None:
                raise failure
            return not stop

        return quantify

    return make


def _exists_one(_: int, bodies: tuple[Closure, ...], __: int) -> Fold:
    body = bodies[0]

    def exists_one(run: Run, rounds: Iterator[None]) -> Value:
        found = 0
        for _ in rounds:
            if _true(body(run)):
                found += 1
                run.spend(2)
        run.spend(2)
        return found == 1

    return exists_one


def _filter(slot: int, bodies: tuple[Closure, ...], _: int) -> Fold:
    body = bodies[0]

    def keep(run: Run, rounds: Iterator[None]) -> Value:
        out = []
        for _ in rounds:
            item = run.slots[slot]
            if _true(body(run)):
                out.append(item)
                run.spend(_APPEND + 1)
        run.spend(1)
        return tuple(out)

    return keep


def _map(_: int, bodies: tuple[Closure, ...], append: int) -> Fold:
    body, condition = bodies[-1], bodies[0] if len(bodies) == 2 else None

    def collect(run: Run, rounds: Iterator[None]) -> Value:
        out = []
        for _ in rounds:
            if condition is not None and not _true(condition(run)):
                continue
            out.append(body(run))
            run.spend(append)
        run.spend(1)
        return tuple(out)

    return collect


def _transform_map(slot: int, bodies: tuple[Closure, ...], _: int) -> Fold:
    body, condition = bodies[-1], bodies[0] if len(bodies) == 2 else None

    def transform(run: Run, rounds: Iterator[None]) -> Value:
        out = {}
        for _ in rounds:
            key = run.slots[slot]
            if condition is not None and not _true(condition(run)):
                continue
            out[key_of(key)] = body(run)
            run.spend(3)
        run.spend(1)
        return out

    return transform


def _transform_entry(_: int, bodies: tuple[Closure, ...], __: int) -> Fold:
    body, condition = bodies[-1], bodies[0] if len(bodies) == 2 else None

    def transform(run: Run, rounds: Iterator[None]) -> Value:
        out: dict[Value, Value] = {}
        for _ in rounds:
            if condition is not None and not _true(condition(run)):
                continue
            entry = body(run)
            if type(entry) is not dict:
                raise no_overload()
            for key, value in entry.items():
                if key in out:
                    raise CelFailure("insert failed: key already exists")
                out[key] = value
            run.spend(2)
        run.spend(1)
        return out

    return transform


def _sort_by(slot: int, bodies: tuple[Closure, ...], _: int) -> Fold:
    body = bodies[0]

    def by_key(one: tuple[Value, Value], other: tuple[Value, Value]) -> int:
        return in_order(one[0], other[0])

    def sort(run: Run, rounds: Iterator[None]) -> Value:
        keyed = []
        for _ in rounds:
            item = run.slots[slot]
            keyed.append((body(run), item))
            run.spend(_APPEND)
        run.spend(3)
        if not all(ordered(key) for key, _ in keyed):
            raise CelFailure("list elements must be comparable")
        return tuple(item for _, item in sorted(keyed, key=cmp_to_key(by_key)))

    return sort


_FOLDS: Final[dict[str, Callable[[int, tuple[Closure, ...], int], Fold]]] = {
    "all": _quantifier(stop=False, condition=2),
    "exists": _quantifier(stop=True, condition=3),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "map_if": _map,
    "transform_list": _map,
    "transform_list_if": _map,
    "transform_map": _transform_map,
    "transform_map_if": _transform_map,
    "transform_entry": _transform_entry,
    "transform_entry_if": _transform_entry,
    "sort_by": _sort_by,
}


def _go_name(value: Value) -> str:
    name = name_of(value)
    return GO_NAMES.get(name, name)
