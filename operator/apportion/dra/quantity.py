"""Quantity: an exact amount as Kubernetes writes it ("40Gi", "1500m", "2e3").

In: text. Out: a value that compares and adds exactly. Kubernetes keeps at most nine decimal places and
rounds the rest away from zero (apimachinery `resource.Quantity`, `ParseQuantity`). An amount with a binary suffix is 2^63-1 at most:
a larger one is read as that. Others are not bounded to 64 bits.
"""

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Literal

from apportion.errors import BrokenInput

NANO = 10**9
Format = Literal["BinarySI", "DecimalSI", "DecimalExponent"]

_SHAPE = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[A-Za-z]*[+-]?[0-9]*)", re.ASCII
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXPONENT = re.compile(r"[eE](?P<power>[+-]?[0-9]+)", re.ASCII)
_MOST_BINARY = (2**63 - 1) * NANO
_LARGEST_EXPONENT = 1000
_LONGEST = 1000
"""A larger exponent and a longer text are errors: they bound the work that a hostile text can cause, and Python reads no number of more than
4300 digits, while the API server stores any."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact amount. Equal amounts are equal whatever their spelling ("1Gi" == "1073741824")."""

    nano: int
    """The amount in units of 10^-9."""

    format: Format = "DecimalSI"
    """How it was written, and so how it is printed."""

    integer: bool = True
    """Whether apimachinery would hold it as an int64, which is what CEL's `isInteger()` returns."""

    @classmethod
    def parse(cls, text: str | float) -> "Quantity":
        """Read a quantity; JSON numbers are accepted as the API server accepts them.

        Raises BrokenInput when the text is no quantity.
        """
        return _parse(str(text))

    @classmethod
    def whole(cls, value: int, form: Format = "DecimalSI") -> "Quantity":
        """Make the quantity of a whole number."""
        return cls(value * NANO, form, -(2**63) <= value < 2**63)

    @property
    def value(self) -> int:
        """The amount as a whole number, rounded up (apimachinery `Value()`)."""
        return -(-self.nano // NANO)

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded up (apimachinery `MilliValue()`)."""
        return -(-self.nano // 10**6)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.format, self.integer and other.integer)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format, self.integer and other.integer)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        """Print canonically: the largest suffix that leaves a whole number."""
        if self.nano == 0:
            return "0"
        if self.format == "BinarySI" and self.nano % NANO == 0 and abs(self.nano) >= 1024 * NANO:
            return _binary(self.nano // NANO)
        return _decimal(self.nano, exponent=self.format == "DecimalExponent")


def _binary(value: int) -> str:
    best = ""
    for suffix, shift in _BINARY.items():
        if value % (1 << shift) == 0:
            best = suffix
    return f"{value >> _BINARY[best]}{best}" if best else str(value)


def _decimal(nano: int, *, exponent: bool) -> str:
    power = -9
    # "E" is the largest suffix; greater powers stay in the number, or are written as an exponent.
    while nano % 1000 == 0 and (exponent or power < 18):
        nano, power = nano // 1000, power + 3
    if exponent:
        return f"{nano}e{power}" if power else str(nano)
    suffix = next(name for name, value in _DECIMAL.items() if value == power)
    return f"{nano}{suffix}"


@lru_cache(maxsize=65536)
def _parse(text: str) -> Quantity:
    shape = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if shape is None or not text:
        raise BrokenInput(f"{text[:40]!r} is not a quantity")
    whole, part, suffix = shape["whole"].lstrip("0"), shape["part"] or "", shape["suffix"]
    sign = -1 if shape["sign"] == "-" else 1
    digits = int((whole + part) or "0")
    if suffix in _BINARY:
        form: Format = "BinarySI"
        scaled, rest = divmod((digits << _BINARY[suffix]) * NANO, 10 ** len(part))
        # The arithmetic of apimachinery's fast path: about 15 decimal digits, three for every ten binary ones.
        plain = not part and len(whole) + _BINARY[suffix] * 3 // 10 + 1 <= 15
        scaled = min(scaled + bool(rest), _MOST_BINARY)
        rest = 0
        if 0 < scaled < NANO:
            form = "DecimalSI"
    else:
        power, form = _power(suffix, text)
        shift = power + 9 - len(part)
        scaled, rest = (digits * 10**shift, 0) if shift >= 0 else divmod(digits, 10**-shift)
        plain = len(whole) + len(part) <= 18 and power - len(part) >= 0
    plain = plain and scaled // NANO < 2**63
    return Quantity(sign * (scaled + (1 if rest else 0)), form, plain)


def _power(suffix: str, text: str) -> tuple[int, Format]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None or abs(int(exponent["power"])) > _LARGEST_EXPONENT:
        raise BrokenInput(f"{text[:40]!r} is not a quantity")
    return int(exponent["power"]), "DecimalExponent"
