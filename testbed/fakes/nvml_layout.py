"""The state file of the fake NVML as ctypes: the mirror of `nvml/state.h`.

In: nothing. Out: structures. `ctypes.sizeof(State)` must be what the library says (`fake_state_size`).
"""

from ctypes import Structure, c_char, c_int32, c_uint32, c_uint64
from typing import Any, ClassVar

MAGIC = 0x4C4D564E
LAYOUT = 1
GPUS = 16
PROFILES = 18
PLACES = 12
INSTANCES = 16
COMPUTES = 8
PROCESSES = 8
LINKS = 18
RULES = 32
EVENTS = 64
COUNTS = 96

_Fields = list[tuple[str, Any]]


def _words(*names: str) -> list[tuple[str, Any]]:
    return [(name, c_uint32) for name in names]


class Compute(Structure):
    """A compute instance."""

    _fields_: ClassVar[_Fields] = [
        *_words("used", "id", "slices", "start", "mig_index"),
        ("pids", c_uint32 * PROCESSES),
        *_words("unused"),
        ("serial", c_uint64),
        ("uuid", c_char * 48),
    ]


class Instance(Structure):
    """A GPU instance."""

    _fields_: ClassVar[_Fields] = [
        *_words("used", "id", "profile", "start", "size", "unused"),
        ("serial", c_uint64),
        ("computes", Compute * COMPUTES),
    ]


class Profile(Structure):
    """A GPU instance profile."""

    _fields_: ClassVar[_Fields] = [
        *_words("constant", "id", "most", "multiprocessors", "slices", "size", "places", "unused"),
        ("engines", c_uint32 * 5),
        ("starts", c_uint32 * PLACES),
        *_words("unused_too"),
        ("memory_mb", c_uint64),
        ("name", c_char * 64),
    ]


class Link(Structure):
    """One NVLink; absent while `remote_bus` is empty."""

    _fields_: ClassVar[_Fields] = [*_words("active", "remote_type"), ("remote_bus", c_char * 32)]


class Gpu(Structure):
    """One GPU."""

    _fields_: ClassVar[_Fields] = [
        *_words(
            "minor", "architecture", "cuda_major", "cuda_minor", "brand", "capable", "mode", "pending", "lost"
        ),
        ("numa", c_int32),
        *_words("slices", "profiles", "pci_device"),
        ("pids", c_uint32 * PROCESSES),
        *_words("unused"),
        ("memory", c_uint64),
        ("ecc", c_uint64),
        ("name", c_char * 64),
        ("uuid", c_char * 48),
        ("bus", c_char * 32),
        ("profile", Profile * PROFILES),
        ("instance", Instance * INSTANCES),
        ("link", Link * LINKS),
    ]


class Rule(Structure):
    """One fault to inject; `action` as in `state.h`."""

    _fields_: ClassVar[_Fields] = [
        *_words("action"),
        ("gpu", c_int32),
        ("code", c_int32),
        ("times", c_int32),
        *_words("skip", "microseconds"),
        ("symbol", c_char * 64),
    ]


class Event(Structure):
    """One event; sequence numbers start at 1."""

    _fields_: ClassVar[_Fields] = [
        ("sequence", c_uint64),
        ("type", c_uint64),
        ("data", c_uint64),
        *_words("gpu", "instance", "compute", "unused"),
    ]


class Count(Structure):
    """How often a symbol was called, by all processes."""

    _fields_: ClassVar[_Fields] = [("calls", c_uint64), ("symbol", c_char * 64)]


class State(Structure):
    """The whole file."""

    _fields_: ClassVar[_Fields] = [
        *_words("magic", "layout", "size", "gpus", "driver_loaded", "cuda"),
        ("next_serial", c_uint64),
        ("next_event", c_uint64),
        ("driver", c_char * 64),
        ("gpu", Gpu * GPUS),
        ("rule", Rule * RULES),
        ("event", Event * EVENTS),
        ("count", Count * COUNTS),
    ]
