"""The state file of the fake NVML as ctypes: the mirror of `state.h`.

In: nothing. Out: structures. `ctypes.sizeof(State)` must be what the library says (`fake_state_size`).
"""

from ctypes import Structure, c_char, c_int32, c_uint8, c_uint32, c_uint64
from typing import ClassVar

from testbed.fakes.statefile.layout import Fields, Header, words

VARIABLE = "APPORTION_FAKE_NVML"
"""Environment variable that names the state file."""
MAGIC = 0x4C4D564E
LAYOUT = 7
GPUS = 16
PROFILES = 18
PLACES = 12
INSTANCES = 16
COMPUTES = 8
PROCESSES = 8
LINKS = 18
EVENTS = 64


class Compute(Structure):
    """A compute instance."""

    _fields_: ClassVar[Fields] = [
        *words("used", "id", "slices", "start", "mig_index"),
        ("pids", c_uint32 * PROCESSES),
        *words("unused"),
        ("serial", c_uint64),
        ("uuid", c_char * 48),
    ]


class Instance(Structure):
    """A GPU instance."""

    _fields_: ClassVar[Fields] = [
        *words("used", "id", "profile", "start", "size", "unused"),
        ("serial", c_uint64),
        ("computes", Compute * COMPUTES),
    ]


class Profile(Structure):
    """A GPU instance profile."""

    _fields_: ClassVar[Fields] = [
        *words("constant", "id", "most", "multiprocessors", "slices", "size", "places", "unused"),
        ("engines", c_uint32 * 5),
        ("starts", c_uint32 * PLACES),
        *words("unused_too"),
        ("memory_mb", c_uint64),
        ("name", c_char * 64),
    ]


class Link(Structure):
    """One NVLink; absent while `remote_bus` is empty."""

    _fields_: ClassVar[Fields] = [*words("active", "remote_type"), ("remote_bus", c_char * 32)]


class Gpu(Structure):
    """One GPU."""

    _fields_: ClassVar[Fields] = [
        *words(
            "minor", "architecture", "cuda_major", "cuda_minor", "brand", "capable", "mode", "pending", "lost"
        ),
        ("numa", c_int32),
        *words("slices", "profiles", "pci_device"),
        ("pids", c_uint32 * PROCESSES),
        *words("keeps_minor", "gone", "virtualization"),
        *words("fabric_state", "fabric_status", "clique", "fabric_health"),
        *words("compute_mode", "time_slice", "recovery"),
        ("memory", c_uint64),
        ("ecc", c_uint64),
        ("name", c_char * 64),
        ("uuid", c_char * 48),
        ("bus", c_char * 32),
        ("cluster", c_uint8 * 16),
        ("profile", Profile * PROFILES),
        ("instance", Instance * INSTANCES),
        ("link", Link * LINKS),
    ]


class Event(Structure):
    """One event; sequence numbers start at 1."""

    _fields_: ClassVar[Fields] = [
        ("sequence", c_uint64),
        ("type", c_uint64),
        ("data", c_uint64),
        *words("gpu", "instance", "compute", "unused"),
    ]


class State(Structure):
    """The whole file."""

    _fields_: ClassVar[Fields] = [
        ("header", Header),
        *words("gpus", "cuda", "contained", "versioned_anytime"),
        ("next_serial", c_uint64),
        ("next_event", c_uint64),
        ("driver", c_char * 64),
        ("gpu", Gpu * GPUS),
        ("event", Event * EVENTS),
    ]
