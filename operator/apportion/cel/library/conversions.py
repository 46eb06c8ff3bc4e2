"""Conversions between scalar types, and the 64-bit range of integers (cel-spec "Standard Definitions")."""

import math
import re
from decimal import Decimal
from typing import Final

from apportion.cel.library import times
from apportion.cel.library.functions import declare, first
from apportion.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelFailure,
    Duration,
    TypeValue,
    Uint,
    Value,
    name_of,
    shown,
)

_DECIMAL: Final = re.compile(r"[+-]?\d{1,1000}", re.ASCII)
"""Python reads no number of more than 4300 digits."""
_FLOAT: Final = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)


def whole(value: int) -> int:
    """Return an int that fits 64 bits; raises CelFailure on overflow."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelFailure("integer overflow")


def unsigned(value: int) -> Uint:
    """Return a uint that fits 64 bits; raises CelFailure on overflow."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelFailure("unsigned integer overflow")


def _parse_int(text: str) -> int:
    if not _DECIMAL.fullmatch(text) or not INT_MIN <= int(text) <= INT_MAX:
        raise CelFailure(f"type conversion error from 'string' to 'int': {shown(text)}")
    return int(text)


def _parse_uint(text: str) -> Uint:
    if not _DECIMAL.fullmatch(text) or text[0] in "+-" or int(text) > UINT_MAX:
        raise CelFailure(f"type conversion error from 'string' to 'uint': {shown(text)}")
    return Uint(text)


def _parse_double(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise CelFailure(f"type conversion error from 'string' to 'double': {shown(text)}")
    return float(text)


def _parse_bool(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise CelFailure(f"type conversion error from 'string' to 'bool': {shown(text)}")


def _truncated(value: float) -> int:
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise CelFailure("integer overflow")
    return int(value)


def _truncated_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise CelFailure("unsigned integer overflow")
    return Uint(int(value))


def decoded(data: bytes) -> str:
    """Return bytes as text; raises CelFailure unless they are UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CelFailure("invalid UTF-8 in bytes, cannot convert to string") from None


def double_text(value: float) -> str:
    """Return a double as Go's `strconv.FormatFloat(value, 'g', -1, 64)` does: fewest digits, exponent from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    shortest = Decimal(repr(value)).normalize()
    power = shortest.adjusted() if shortest else 0
    if -4 <= power < 6:
        return f"{shortest:f}"
    return f"{shortest.scaleb(-power):f}e{power:+03d}"


def _same(value: Value) -> Value:
    return value


_SCALARS: Final = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")

OVERLOADS = (
    declare("type(A) -> type(A)", lambda value: TypeValue(name_of(value))),
    declare("dyn(A) -> dyn", _same),
    *(declare(f"{one}({one}) -> {one}", _same) for one in _SCALARS),
    declare("bool(string) -> bool", _parse_bool),
    declare("bytes(string) -> bytes", str.encode, first),
    declare("double(int) -> double", float),
    declare("double(string) -> double", _parse_double),
    declare("double(uint) -> double", float),
    declare("duration(string) -> duration", times.parse_duration),
    declare("duration(int) -> duration", Duration),
    declare("int(double) -> int", _truncated),
    declare("int(duration) -> int", lambda d: d.nanos),
    declare("int(string) -> int", _parse_int),
    declare("int(timestamp) -> int", lambda t: t.nanos // 10**9),
    declare("int(uint) -> int", lambda u: whole(int(u))),
    declare("string(bool) -> string", lambda b: "true" if b else "false"),
    declare("string(bytes) -> string", decoded, first),
    declare("string(double) -> string", double_text),
    declare("string(duration) -> string", times.duration_text),
    declare("string(int) -> string", str),
    declare("string(timestamp) -> string", times.timestamp_text),
    declare("string(uint) -> string", lambda u: str(int(u))),
    declare("timestamp(int) -> timestamp", lambda i: times.timestamp(i * 10**9)),
    declare("timestamp(string) -> timestamp", times.parse_timestamp),
    declare("uint(double) -> uint", _truncated_uint),
    declare("uint(int) -> uint", unsigned),
    declare("uint(string) -> uint", _parse_uint),
)
