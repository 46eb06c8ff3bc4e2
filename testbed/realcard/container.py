"""A container that gets a card by its CDI file, started by the host's containerd, to see what arrives inside.

In: a card with its edits, `ctr`. Out: a check. The CDI file is written under a driver name of its own and removed afterwards; the
container's root is an empty folder with the host's /usr in it, so no image is needed.
"""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apportion.agent.cdi import CdiFolder, Injection, device_id
from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.values import Card, DeviceNode, Edits
from testbed.realcard.report import Check, Verdict

DRIVER: Final = "real-card.apportion.dev"
_SOCKET: Final = "/run/containerd/containerd.sock"
_PATIENCE: Final = 60.0
"""Seconds for a container to start, look and end."""
_LINKS: Final = ("bin", "lib", "lib64", "sbin")
_FOLDERS: Final = ("dev", "etc", "proc", "run", "sys", "tmp", "usr")


def why_none() -> str:
    """Return why no container can be started here, "" when one can."""
    if shutil.which("ctr") is None:
        return "there is no ctr on the PATH"
    if not Path(_SOCKET).is_socket():
        return f"containerd does not listen at {_SOCKET}"
    return "" if os.geteuid() == 0 else "containers need root"


def container_check(card: Card, edits: Edits, *, host: HostFiles, cdi_dir: Path) -> Check:
    """Start a container that gets the card, and compare the device files inside with what the driver and the host say."""
    name = f"{card.name}: a container gets it"
    claim = str(uuid.uuid4())
    folder = CdiFolder(cdi_dir)
    folder.write(DRIVER, claim, [Injection(card.name, ("card",), card.uuid, partition=False, edits=edits)])
    try:
        with tempfile.TemporaryDirectory(prefix="real-card-") as scratch:
            root = _root(Path(scratch))
            device = device_id(DRIVER, claim, card.name)
            said = _run(device, root, claim, [node.path for node in edits.nodes])
    except (OSError, subprocess.SubprocessError) as error:
        return Check(name, Verdict.BAD, str(error))
    finally:
        folder.remove(DRIVER, claim)
    wanted = {node.path: _numbers(node, host) for node in edits.nodes}
    inside = dict(line.rsplit(" ", 1) for line in said.splitlines() if line.startswith("/"))
    wrong = [
        f"{path} is {inside.get(path, 'not there')} inside and {number} outside"
        for path, number in wanted.items()
        if inside.get(path) != number
    ]
    if wrong:
        return Check(name, Verdict.BAD, "; ".join(wrong))
    return Check(name, Verdict.OK, f"{len(wanted)} device files, each with its number")


def _root(folder: Path) -> Path:
    for name in _FOLDERS:
        (folder / name).mkdir()
    for name in _LINKS:
        (folder / name).symlink_to(f"usr/{name}")
    return folder


def _run(device: str, root: Path, name: str, paths: Sequence[str]) -> str:
    """Return what `stat` says inside about paths. Raises OSError when the container does not start."""
    done = subprocess.run(
        [
            *("ctr", "--address", _SOCKET, "--namespace", "real-card", "run", "--rm", "--device", device),
            *("--mount", "type=bind,src=/usr,dst=/usr,options=rbind:ro"),
            *("--rootfs", str(root), f"real-card-{name}"),
            *("/usr/bin/stat", "--format", "%n %t:%T", *paths),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
    )
    if done.returncode and not done.stdout:
        raise OSError(f"ctr run: {done.stderr.strip()}")
    return done.stdout


def _numbers(node: DeviceNode, host: HostFiles) -> str:
    """Return the numbers of a device file as `stat` prints them, "" for one that the host does not have."""
    if node.major is not None and node.minor is not None:
        return f"{node.major:x}:{node.minor:x}"
    path = host.resolve(node.host_path or node.path)
    if path is None:
        return ""
    number = host.here(path).stat().st_rdev
    return f"{os.major(number):x}:{os.minor(number):x}"
