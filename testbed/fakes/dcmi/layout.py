"""The state file of the fake DCMI as ctypes: the mirror of `state.h`.

In: nothing. Out: structures. `ctypes.sizeof(State)` must be what the library says (`fake_state_size`).
"""

from ctypes import Structure, c_char, c_int32, c_uint8, c_uint32, c_uint64
from typing import ClassVar

from testbed.fakes.statefile.layout import Fields, Header, words

MAGIC = 0x494D4344
LAYOUT = 2
CHIPS = 16
TEMPLATES = 12
VDEVICES = 32
EVENTS = 8
ANSWERS = 64

B310, P310, A910, B910, C910, A950 = range(6)
"""Families of chips."""
HOST, PRIVILEGED, CONTAINER, NOT_ROOT = range(4)
"""Who calls, and from where: root on the host, in a privileged or a plain container, or somebody else."""


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
    """An alarm that is not over."""

    _fields_: ClassVar[Fields] = words("used", "id")


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


class Answer(Structure):
    """What a call answers each place before it looks at anything else."""

    _fields_: ClassVar[Fields] = [("symbol", c_char * 64), *words("family"), ("code", c_int32 * 4)]


class State(Structure):
    """The whole file."""

    _fields_: ClassVar[Fields] = [
        ("header", Header),
        *words("chips", "mode", "recover", "own_recover", "mounted", "smp", "place", "answers"),
        ("next_serial", c_uint64),
        ("driver", c_char * 64),
        ("recovery", c_char * 256),
        ("link", (c_uint8 * CHIPS) * CHIPS),
        ("answer", Answer * ANSWERS),
        ("chip", Chip * CHIPS),
    ]
