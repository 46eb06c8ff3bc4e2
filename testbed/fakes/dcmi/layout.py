"""The state file of the fake DCMI as ctypes: the mirror of `state.h`.

In: nothing. Out: structures. `ctypes.sizeof(State)` must be what the library says (`fake_state_size`).
"""

from ctypes import Structure, c_char, c_int32, c_uint8, c_uint32, c_uint64
from typing import ClassVar

from testbed.fakes.statefile.layout import Fields, Header, words

MAGIC = 0x494D4344
LAYOUT = 1
CHIPS = 16
TEMPLATES = 12
VDEVICES = 32
EVENTS = 8

OTHER, P310, A910, B910, C910 = range(5)
"""Families of chips."""


class Amounts(Structure):
    """What a chip has or a template takes; memory in MiB."""

    _fields_: ClassVar[Fields] = [
        *words("aicore", "aicpu", "vpc", "vdec", "venc", "jpegd", "jpege", "unused"),
        ("memory", c_uint64),
    ]


class Template(Structure):
    """A vNPU template."""

    _fields_: ClassVar[Fields] = [("name", c_char * 32), ("amounts", Amounts)]


class Vdevice(Structure):
    """A vNPU."""

    _fields_: ClassVar[Fields] = [
        *words("used", "id", "template", "group", "in_use", "saved"),
        ("serial", c_uint64),
        ("container", c_uint64),
    ]


class Event(Structure):
    """A fault that is not over."""

    _fields_: ClassVar[Fields] = [
        *words("used", "id", "severity", "serial"),
        ("raised", c_uint64),
        ("name", c_char * 64),
    ]


class Chip(Structure):
    """One NPU chip."""

    _fields_: ClassVar[Fields] = [
        *words("family", "card", "device", "logic", "phy", "board", "lost", "health", "sriov", "aicpus"),
        *words("most", "first_id", "ids", "next_id", "templates", "groups"),
        ("domain", c_int32),
        ("numa", c_int32),
        *words("bus", "slot", "function", "unused"),
        ("die", c_uint32 * 5),
        ("die_n", c_uint32 * 5),
        *words("sdid", "pod_size", "pod", "server", "chassis", "pod_type"),
        ("name", c_char * 32),
        ("npu_name", c_char * 32),
        ("total", Amounts),
        ("template", Template * TEMPLATES),
        ("vdevice", Vdevice * VDEVICES),
        ("event", Event * EVENTS),
    ]


class State(Structure):
    """The whole file."""

    _fields_: ClassVar[Fields] = [
        ("header", Header),
        *words("chips", "mode", "recover", "smp", "permitted", "unused"),
        ("next_serial", c_uint64),
        ("driver", c_char * 64),
        ("recovery", c_char * 256),
        ("link", (c_uint8 * CHIPS) * CHIPS),
        ("chip", Chip * CHIPS),
    ]
