"""A program that uses DCMI through ctypes, as Huawei's own do, in a process of its own that finds the library by name.

In: a fake, a script. Out: the value of the script's variable `answer`. The structures are written here again from the
vendor's header, so that an error in the product's shows.
"""

import textwrap
from typing import Any

from testbed.fakes.dcmi.library import FakeDcmi
from tests.fakes import program

_PRELUDE = """
import json, struct
from ctypes import *

dcmi = CDLL("libdcmi.so")
AUTO, EVERY = 0xFFFFFFFF, 0xFFFF

def number(function, *args):
    out = c_int()
    code = getattr(dcmi, function)(*args, byref(out))
    return out.value if code == 0 else code

def cut(template, id=AUTO, card=1, chip=0, group=AUTO):
    wanted = struct.pack("<II32s64x", id, group, template.encode())
    out = create_string_buffer(52)
    code = dcmi.dcmi_create_vdevice(card, chip, wanted, out)
    return struct.unpack_from("<I", out.raw)[0] if code == 0 else code

def destroy(id, card=1, chip=0):
    return dcmi.dcmi_set_destroy_vdevice(card, chip, c_uint(id))

def ask(sub, size, given=b"", card=1, chip=0, main=52):
    buffer, length = create_string_buffer(given.ljust(size, b"\\0"), size), c_uint(size)
    code = dcmi.dcmi_get_device_info(card, chip, main, sub, buffer, byref(length))
    return buffer.raw if code == 0 else code

RESOURCES = "<QQQIB31x4xff8HQ4I5H2xIQQ12x4x6f32x"

def resources(raw):
    row = struct.unpack(RESOURCES, raw)
    return {"aicore": row[5], "memory": row[15], "aicpu": row[23],
            **dict(zip(("jpegd", "jpege", "vpc", "vdec", "pngd", "venc"), row[28:34]))}

def whole(**where):
    raw = ask(1, 360, **where)
    if isinstance(raw, int):
        return raw
    count, *ids = struct.unpack_from("<33I", raw)
    return ids[:count], resources(raw[144:])

def rest(**where):
    return resources(ask(2, 224, **where)[8:])

def one(id, **where):
    raw = ask(0, 264, struct.pack("<I", id), **where)
    if isinstance(raw, int):
        return raw
    name, status, used, function, group, container = struct.unpack_from("<16sIIIIQ", raw, 8)
    return name.rstrip(b"\\0").decode(), used, group, container, resources(raw[48:])

assert dcmi.dcmi_init() == 0
"""


def run(fake: FakeDcmi, script: str, *, code: int = 0) -> Any:
    """Run a script; it must end with this exit code."""
    return program.run(fake, _PRELUDE + textwrap.dedent(script), code)
