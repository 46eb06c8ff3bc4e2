"""How a node ends: whatever happens to the process that started it, nothing of it stays on the host."""

import asyncio
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import psutil
import pytest

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.eventually import eventually
from testbed.process import Identity
from testbed.realnode import cgroups, records
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.node import RealNode

_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT), str(_ROOT / "operator")))}
_SYS_ADMIN = 21  # include/uapi/linux/capability.h
_PR_CAPBSET_DROP = 24  # include/uapi/linux/prctl.h
_OWNER = """
import asyncio, subprocess, sys, tempfile
from pathlib import Path
from testbed.realnode import records
from testbed.realnode.isolatedhost import IsolatedHost

async def main():
    folder = Path(tempfile.mkdtemp(prefix="apportion-node-"))
    host = IsolatedHost(folder, folder.name)
    await host.start()
    records.save(records.Record(records.this_process(), host.init, host.group, str(folder)))
    # A program that left its parents, as a container's shim does, in a group as kubelet makes them.
    inside = "setsid sleep 4711 & echo $! > /run/orphan; mkdir /sys/fs/cgroup/$0/$1/pods; echo $! > /sys/fs/cgroup/$0/$1/pods/cgroup.procs"
    subprocess.run(host.command("sh", "-c", inside, sys.argv[1], host.group), check=True)
    print(host.group, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
_PROBE = """
import asyncio
from testbed.realnode.probe import unsupported_reason
print(asyncio.run(unsupported_reason()))
"""


def _traces() -> set[str]:
    """Return everything on this machine that a node may leave: folders, control groups, records, programs."""
    found = {str(path) for path in Path(tempfile.gettempdir()).glob("apportion-node-*")}
    found |= {str(path) for path in Path("/sys/fs/cgroup").glob("*/apportion-node-*")}
    found |= {str(path) for path in Path("/sys/fs/cgroup").glob("apportion-node-*")}
    found |= {str(path) for path in records.folder().glob("*.json")}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if any("apportion-node-" in word for word in words):
            found.add(f"process {process.pid}")
    return found


def _hierarchy() -> str:
    return "." if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "pids"


async def test_a_killed_test_leaves_no_process_and_the_next_start_cleans_up(node_binaries: Binaries) -> None:
    """The kernel ends what runs inside with its owner, orphans too; group, folder and record go with the next node's start."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _OWNER, _hierarchy(), env=_ENVIRONMENT, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert owner.stdout is not None
    group = (await owner.stdout.readline()).decode().strip()
    [pid] = cgroups.processes(group)
    orphan = Identity(pid, psutil.Process(pid).create_time())
    assert group not in await records.sweep(), "its owner lives"
    assert orphan.running()

    owner.kill()
    await owner.wait()

    async def runs() -> bool:
        return orphan.running()

    await eventually(runs, lambda running: not running)
    assert any(group in trace for trace in _traces())
    assert group in await records.sweep()
    assert not any(group in trace for trace in _traces())


async def test_ctrl_c_leaves_nothing(node_binaries: Binaries, binaries: Binaries) -> None:
    """In the middle of `make real-node`, with pods and all: one SIGINT, and the host is as before."""
    before = _traces()
    show = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "testbed", "real-node"),
        env=_ENVIRONMENT,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        # As from a terminal: what a script starts in its background ignores the signal, and its children do.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert show.stdout is not None
    assert "operator and agent" in (await show.stdout.readline()).decode()
    during = _traces() - before
    assert {trace.partition(" ")[0] for trace in during} > {"process"}
    await asyncio.sleep(0.5)  # the first pod is on its way
    show.send_signal(signal.SIGINT)
    await show.communicate()
    assert show.returncode != 0
    assert not _traces() & during


async def test_two_nodes_live_side_by_side(
    installation: RealNodeInstallation, node_binaries: Binaries
) -> None:
    """Each has its own kubelet, containerd and /var/lib; the end of one is no matter to the other."""
    async with RealNode(installation.cluster, "other", node_binaries) as other:
        nodes, _ = await installation.cluster.api.items("/api/v1/nodes")
        assert {each["metadata"]["name"]: _ready(each) for each in nodes} == {"real": True, "other": True}
        ids = {each["status"]["nodeInfo"]["bootID"] for each in nodes}
        assert len(ids) == 2
        assert other.host.group != installation.node.host.group
    assert _ready(await installation.node.ready())
    assert await installation.node.containerd.containers() == []


def _ready(node: Json) -> bool:
    return any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"]["conditions"])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a right to lose")
async def test_a_machine_that_allows_no_namespaces_says_so() -> None:
    """Root in a container without CAP_SYS_ADMIN: the reason is the kernel's, and the trial leaves nothing."""
    drop = (
        f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, {_SYS_ADMIN}, 0, 0, 0);"
        "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    )
    probe = await asyncio.create_subprocess_exec(
        sys.executable, "-c", drop, _PROBE, env=_ENVIRONMENT, stdout=asyncio.subprocess.PIPE
    )
    said = (await probe.communicate())[0].decode()
    assert "this machine allows no mounts, process ids or control groups of a node's own" in said
    assert "unshare: Operation not permitted" in said
