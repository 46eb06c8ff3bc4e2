"""Kubernetes' own values in CEL: quantities and semantic versions (apiserver `library/quantity.go`, `semverlib.go`)."""

import math

from apportion.cel.library.functions import declare, first, succeeds
from apportion.cel.values import INT_MAX, INT_MIN, CelFailure, Computed
from apportion.dra.quantity import NANO, Quantity
from apportion.dra.semver import Semver
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


def _as_float(amount: Quantity) -> float:
    try:
        return amount.nano / NANO
    except OverflowError:
        return math.inf if amount.nano > 0 else -math.inf


def _is_integer(amount: Quantity) -> bool:
    return amount.integer and amount.nano % NANO == 0 and INT_MIN <= amount.nano // NANO <= INT_MAX


def _sum(one: Quantity, other: Quantity) -> Computed:
    return Computed(one.nano + other.nano, one.format, one.integer and other.integer)


def _difference(one: Quantity, other: Quantity) -> Computed:
    return Computed(one.nano - other.nano, one.format, one.integer and other.integer)


def semver(text: str, tolerant: bool = False) -> Semver:  # noqa: FBT001, FBT002 - a positional argument of CEL's
    """Read a version; `tolerant` allows a leading "v", leading zeros, and a missing minor or patch number."""
    try:
        return Semver.parse(_normalized(text) if tolerant else text)
    except BrokenInput as error:
        raise CelFailure(str(error)) from None


def _normalized(text: str) -> str:
    """Complete a shortened or zero-padded version; raises CelFailure for a short one with pre-release or build."""
    parts = [_trimmed(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if any(mark in parts[-1] for mark in "+-"):
            raise CelFailure("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _trimmed(part: str) -> str:
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part and part[0] in "0123456789" else "0" + part


def _int64(number: int) -> int:
    """Return a version's number as Go converts it, `int64(v.Major)`: from 2^63 on it is negative."""
    return number - 2**64 if number > INT_MAX else number


OVERLOADS = (
    declare("quantity(string) -> kubernetes.Quantity", quantity, first),
    declare("isQuantity(string) -> bool", succeeds(quantity), first),
    declare("sign(kubernetes.Quantity) -> int", lambda q: (q.nano > 0) - (q.nano < 0)),
    declare("kubernetes.Quantity isGreaterThan(kubernetes.Quantity) -> bool", lambda a, b: a.nano > b.nano),
    declare("kubernetes.Quantity isLessThan(kubernetes.Quantity) -> bool", lambda a, b: a.nano < b.nano),
    declare(
        "kubernetes.Quantity compareTo(kubernetes.Quantity) -> int",
        lambda a, b: (a.nano > b.nano) - (a.nano < b.nano),
    ),
    declare("kubernetes.Quantity asApproximateFloat() -> double", _as_float),
    declare("kubernetes.Quantity asInteger() -> int", _as_integer),
    declare("kubernetes.Quantity isInteger() -> bool", _is_integer),
    declare("kubernetes.Quantity add(kubernetes.Quantity) -> kubernetes.Quantity", _sum),
    declare("kubernetes.Quantity add(int) -> kubernetes.Quantity", lambda q, n: _sum(q, Quantity.whole(n))),
    declare("kubernetes.Quantity sub(kubernetes.Quantity) -> kubernetes.Quantity", _difference),
    declare(
        "kubernetes.Quantity sub(int) -> kubernetes.Quantity", lambda q, n: _difference(q, Quantity.whole(n))
    ),
    declare("semver(string) -> kubernetes.Semver", semver, first),
    declare("semver(string, bool) -> kubernetes.Semver", semver, first),
    declare("isSemver(string) -> bool", succeeds(semver), first),
    declare("isSemver(string, bool) -> bool", succeeds(semver), first),
    declare("kubernetes.Semver major() -> int", lambda v: _int64(v.major)),
    declare("kubernetes.Semver minor() -> int", lambda v: _int64(v.minor)),
    declare("kubernetes.Semver patch() -> int", lambda v: _int64(v.patch)),
    declare("kubernetes.Semver isGreaterThan(kubernetes.Semver) -> bool", lambda a, b: a.key > b.key),
    declare("kubernetes.Semver isLessThan(kubernetes.Semver) -> bool", lambda a, b: a.key < b.key),
    declare(
        "kubernetes.Semver compareTo(kubernetes.Semver) -> int",
        lambda a, b: (a.key > b.key) - (a.key < b.key),
    ),
)
