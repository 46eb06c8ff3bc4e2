"""Whether a real node can run on this machine.

In: nothing. Out: the reason why not, found by starting and ending an isolated host.
"""

import os
import platform
import shutil
import tempfile
from pathlib import Path

from testbed.errors import TestbedError
from testbed.realnode.isolatedhost import IsolatedHost


async def unsupported_reason() -> str:
    """Return why no real node can run here, "" when one can."""
    if platform.system() != "Linux":
        return f"a node needs Linux, this is {platform.system()}"
    if os.geteuid() != 0:
        return "a node needs root (mounts, process ids and control groups of its own)"
    if not os.access("/dev/kmsg", os.R_OK):
        return "kubelet needs to read /dev/kmsg"
    folder = Path(tempfile.mkdtemp(prefix="apportion-probe-"))
    host = IsolatedHost(folder, folder.name)
    try:
        await host.start()
    except (OSError, TestbedError) as error:
        return f"this machine allows no mounts, process ids or control groups of a node's own: {error}"
    finally:
        await host.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return ""
