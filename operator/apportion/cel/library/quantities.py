"""Kubernetes quantities in CEL (apiserver `library/quantity.go`)."""

from apportion.cel.library.functions import declare, first, succeeds
from apportion.cel.values import INT_MAX, INT_MIN, CelFailure, Computed
from apportion.dra.quantity import NANO, Quantity
from apportion.errors import BrokenInput


def quantity(text: str) -> Quantity:
    """Read a quantity; raises CelFailure."""
    try:
        return Quantity.parse(text)
    except BrokenInput as error:
        raise CelFailure(str(error)) from None


def _as_integer(amount: Quantity) -> int:
    if not _is_integer(amount):
        raise CelFailure("cannot convert value to integer")
    return amount.nano // NANO


def _is_integer(amount: Quantity) -> bool:
    return amount.integer and amount.nano % NANO == 0 and INT_MIN <= amount.nano // NANO <= INT_MAX


def _compare(one: Quantity, other: Quantity) -> int:
    return (one.nano > other.nano) - (one.nano < other.nano)


def _sum(one: Quantity, other: Quantity) -> Computed:
    return Computed(one.nano + other.nano, one.format, one.integer and other.integer)


def _difference(one: Quantity, other: Quantity) -> Computed:
    return Computed(one.nano - other.nano, one.format, one.integer and other.integer)


OVERLOADS = (
    declare("quantity(string) -> kubernetes.Quantity", quantity, first),
    declare("isQuantity(string) -> bool", succeeds(quantity), first),
    declare("sign(kubernetes.Quantity) -> int", lambda q: (q.nano > 0) - (q.nano < 0)),
    declare("kubernetes.Quantity isGreaterThan(kubernetes.Quantity) -> bool", lambda a, b: a.nano > b.nano),
    declare("kubernetes.Quantity isLessThan(kubernetes.Quantity) -> bool", lambda a, b: a.nano < b.nano),
    declare("kubernetes.Quantity compareTo(kubernetes.Quantity) -> int", _compare),
    declare("kubernetes.Quantity asApproximateFloat() -> double", lambda q: q.nano / NANO),
    declare("kubernetes.Quantity asInteger() -> int", _as_integer),
    declare("kubernetes.Quantity isInteger() -> bool", _is_integer),
    declare("kubernetes.Quantity add(kubernetes.Quantity) -> kubernetes.Quantity", _sum),
    declare("kubernetes.Quantity add(int) -> kubernetes.Quantity", lambda q, n: _sum(q, Quantity.whole(n))),
    declare("kubernetes.Quantity sub(kubernetes.Quantity) -> kubernetes.Quantity", _difference),
    declare(
        "kubernetes.Quantity sub(int) -> kubernetes.Quantity", lambda q, n: _difference(q, Quantity.whole(n))
    ),
)
