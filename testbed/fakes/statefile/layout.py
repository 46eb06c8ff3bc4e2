"""The header with which every fake's state file begins, as ctypes: the mirror of `statefile.h`.

In: nothing. Out: structures.
"""

from ctypes import Structure, c_char, c_int32, c_uint32, c_uint64
from typing import Any, ClassVar

RULES = 32
COUNTS = 96

Fields = list[tuple[str, Any]]


def words(*names: str) -> Fields:
    """Return fields of 32 bits without sign."""
    return [(name, c_uint32) for name in names]


class Rule(Structure):
    """One fault to inject; `action` as in `statefile.h`."""

    _fields_: ClassVar[Fields] = [
        *words("action"),
        ("unit", c_int32),
        ("code", c_int32),
        ("times", c_int32),
        *words("skip", "microseconds"),
        ("symbol", c_char * 64),
    ]


class Count(Structure):
    """How often a symbol was called, by all processes."""

    _fields_: ClassVar[Fields] = [("calls", c_uint64), ("symbol", c_char * 64)]


class Header(Structure):
    """The beginning of the file."""

    _fields_: ClassVar[Fields] = [
        *words("magic", "layout", "size", "driver_loaded"),
        ("rule", Rule * RULES),
        ("count", Count * COUNTS),
    ]
