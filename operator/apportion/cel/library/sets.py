"""Lists as sets (cel-go `ext.Sets`)."""

from apportion.cel.equality import contains
from apportion.cel.functions import declare, size_of
from apportion.cel.values import Value


def _contains(one: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    return all(contains(item, one) for item in other)


def _product(args: tuple[Value, ...], _: Value) -> int:
    return 1 + size_of(args[0]) * size_of(args[1])


def _twice(args: tuple[Value, ...], _: Value) -> int:
    return 1 + 2 * size_of(args[0]) * size_of(args[1])


OVERLOADS = (
    declare("sets.contains(list(T), list(T)) -> bool", _contains, _product),
    declare(
        "sets.equivalent(list(T), list(T)) -> bool", lambda a, b: _contains(a, b) and _contains(b, a), _twice
    ),
    declare(
        "sets.intersects(list(T), list(T)) -> bool",
        lambda a, b: any(contains(item, b) for item in a),
        _product,
    ),
)
