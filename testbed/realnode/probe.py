"""Whether this machine lets us run a node: nothing in, the reason why not out.

What is needed is tried, not guessed: a cell is started and ended.
"""

import os
import platform
import shutil
import tempfile
from pathlib import Path

from testbed.errors import TestbedError
from testbed.realnode.cell import Cell


async def unfit() -> str:
    """Return why no real node can run here, "" when one can."""
    if platform.system() != "Linux":
        return f"a node needs Linux, this is {platform.system()}"
    if os.geteuid() != 0:
        return "a node needs root (mounts, process ids and control groups of its own)"
    if not os.access("/dev/kmsg", os.R_OK):
        return "kubelet needs to read /dev/kmsg"
    folder = Path(tempfile.mkdtemp(prefix="apportion-probe-"))
    cell = Cell(folder, folder.name)
    try:
        await cell.start()
    except (OSError, TestbedError) as error:
        return f"this machine allows no mounts, process ids or control groups of a node's own: {error}"
    finally:
        await cell.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return ""
