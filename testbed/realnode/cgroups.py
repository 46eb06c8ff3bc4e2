"""The control groups of one node's pods: a name in, a group in every hierarchy out, and no group left at the end.

Both layouts: one unified hierarchy (v2), or one per controller (v1), where kubelet wants its root group in each of them.
"""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_NEEDED = ("cpu", "memory", "pids")
_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.05


def hierarchies() -> list[Path]:
    """Return where a group has to be made; raises OSError, with the reason, when kubelet's controllers are missing."""
    if (_ROOT / "cgroup.controllers").exists():
        have = set((_ROOT / "cgroup.controllers").read_text().split())
        found = [_ROOT]
    else:
        found = sorted(path for path in _ROOT.glob("*") if path.is_dir() and not path.is_symlink())
        found = [path for path in found if (path / "tasks").exists()]
        have = {name for path in found for name in path.name.split(",")}
    missing = [name for name in _NEEDED if name not in have]
    if missing:
        raise OSError(f"the kernel offers no control group controller {', '.join(missing)}")
    return found


def make(name: str) -> None:
    """Make the group everywhere. Raises OSError."""
    for hierarchy in hierarchies():
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # On v1 an empty set lets no process in.
            if (group / file).exists() and (hierarchy / "tasks").exists():
                (group / file).write_text((hierarchy / file).read_text())


async def remove(name: str) -> None:
    """Remove the group with all groups below it; the processes in it have been killed, and may take a moment to go."""
    end = time.monotonic() + _PATIENCE_SECONDS
    for group in _groups(name):
        while not _removed(group) and time.monotonic() < end:  # noqa: ASYNC110 - the kernel sends no event
            await asyncio.sleep(_LOOK_SECONDS)


def processes(name: str) -> set[int]:
    """Return the ids of all processes in the group and below it."""
    found = set()
    for group in _groups(name):
        for file in group.rglob("cgroup.procs"):
            with suppress(OSError):
                found |= {int(line) for line in file.read_text().split()}
    return found


def _groups(name: str) -> list[Path]:
    """Return the group wherever it is, also in the unified hierarchy beside v1's, where runc adds it."""
    return [path for path in (_ROOT / name, *(each / name for each in _ROOT.glob("*"))) if path.is_dir()]


def _removed(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()
