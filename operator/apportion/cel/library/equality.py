"""Equality and order of CEL values, across types as Kubernetes' CEL has them.

Numbers compare by value whatever their types, as doubles where one of them is a double; other values of different types
are unequal. A Quantity or Semver on the left of another type is an error (upstream's `Equal` fails on other types); on the
right it is not.
"""

from apportion.cel.values import (
    VISITS,
    CelFailure,
    Computed,
    Domains,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    no_overload,
)
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

_NUMBERS = frozenset((int, Uint, float))
_MAPS = frozenset((dict, Domains))
_ORDERED = frozenset((bool, str, bytes, Timestamp, Duration))
STRICT: set[type] = {Quantity, Computed, Semver}
"""Classes that fail when their values stand left of `==` with another class on the right; libraries add theirs."""


def equal(left: Value, right: Value) -> bool:
    """Say whether two values are equal; raises CelFailure for classes that fail on other classes."""
    one, other = type(left), type(right)
    if one is other and one is not tuple and one not in _MAPS and one is not Optional and one is not Computed:
        return bool(left == right)
    if one in _NUMBERS:
        return other in _NUMBERS and _real(left, other) == _real(right, one)
    if one is tuple:
        return other is tuple and len(left) == len(right) and all(map(_agree, left, right))
    if one in _MAPS:
        return (
            other in _MAPS
            and len(left) == len(right)
            and all(key in right and _agree(value, right[key]) for key, value in left.items())
        )
    if one is Optional:
        if other is not Optional or left.present is not right.present:
            return False
        return not left.present or equal(left.value, right.value)
    if one in STRICT:
        # A computed quantity is of a pointer type upstream, which the left side does not recognise.
        if other is Quantity and one is not Semver:
            return bool(left == right)
        raise no_overload()
    return False


def _real(number: Value, beside: type) -> Value:
    """Return a number as it is compared with one of another class: as a double with a double, however many digits that loses (compare.go)."""
    return float(number) if beside is float else number


def _agree(left: Value, right: Value) -> bool:
    """Say whether two items of lists or maps agree; a failed comparison counts as equal, as in cel-go."""
    if type(left) is tuple or type(left) in _MAPS:
        VISITS.add(len(left))
    elif type(left) is Optional:
        VISITS.add(1)
    try:
        return equal(left, right)
    except CelFailure:
        return True


def unequal(left: Value, right: Value) -> bool:
    """Return what `!=` gives: also true where `==` fails."""
    try:
        return not equal(left, right)
    except CelFailure:
        return True


def contains(needle: Value, items: tuple[Value, ...]) -> bool:
    """Say whether some item equals the needle; a comparison that fails counts as unequal."""
    return any(same(item, needle) for item in items)


def same(left: Value, right: Value) -> bool:
    """Say whether `==` gives true; a comparison that fails counts as unequal."""
    try:
        return equal(left, right)
    except CelFailure:
        return False


def ordered(value: Value) -> bool:
    """Say whether the value is of a type that has an order."""
    return type(value) in _NUMBERS or type(value) in _ORDERED


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for two values of comparable types; raises CelFailure for others."""
    one, other = type(left), type(right)
    if one in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:  # noqa: PLR0124 - NaN
            raise CelFailure("NaN values cannot be ordered")
        left, right = _real(left, other), _real(right, one)
    elif one is not other or one not in _ORDERED:
        raise no_overload()
    if one is Timestamp or one is Duration:
        left, right = left.nanos, right.nanos
    return int(left > right) - int(left < right)


def in_order(one: Value, other: Value) -> int:
    """Compare two items of a list to be sorted; raises CelFailure unless they are of one type that has an order."""
    if type(one) is not type(other):
        raise CelFailure("list elements must have the same type")
    return compare(one, other)
