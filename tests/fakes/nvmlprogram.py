"""A program with the unmodified nvidia-ml-py, in a process of its own that finds the fake as the driver's library.

In: a fake, a script. Out: the value of the script's variable `answer`.
"""

import textwrap
from collections.abc import Callable
from typing import Any

from testbed.fakes.nvml.library import FakeNvml
from tests.fakes import program

Vendor = Callable[..., Any]

_PRELUDE = """
import json, sys
from ctypes import byref, c_uint
from pynvml import *

def refused(call, *args):
    try:
        call(*args)
    except NVMLError as error:
        return error.value
    return 0

def gpu(index=0):
    return nvmlDeviceGetHandleByIndex(index)

def cut(device, profile, start, size):
    return nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, byref(c_nvmlGpuInstancePlacement_t(start, size)))

def fill(instance, constant):
    number = nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, constant, 0).id
    return nvmlGpuInstanceCreateComputeInstance(instance, number)

def uuid(compute):
    return nvmlDeviceGetUUID(nvmlComputeInstanceGetInfo(compute).device)

def mig_devices(device):
    return [i for i in range(nvmlDeviceGetMaxMigDeviceCount(device))
            if not refused(nvmlDeviceGetMigDeviceHandleByIndex, device, i)]

def instances(device, profile):
    rows, count = (c_nvmlGpuInstance_t * 16)(), c_uint(16)
    nvmlDeviceGetGpuInstances(device, profile, rows, byref(count))
    return [nvmlGpuInstanceGetInfo(row).id for row in rows[:count.value]]

nvmlInit()
"""


def run(fake: FakeNvml, script: str, *, code: int = 0) -> Any:
    """Run a script; it must end with this exit code."""
    return program.run(fake, _PRELUDE + textwrap.dedent(script), code)
