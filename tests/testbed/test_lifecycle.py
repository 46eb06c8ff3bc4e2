"""Testbeds that outlive a shell, and those whose owner dies: no process is ever left."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest

from testbed.binaries import Binaries
from testbed.process import Identity, Process
from tests.testbed.commands import run_testbed

OWNER = """
import asyncio, sys
from testbed.controlplane import ControlPlane

async def main():
    async with ControlPlane(components=("etcd", "kube-apiserver")) as cluster:
        print(cluster.folder, *(process.pid for process in cluster.processes.values()), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_up_and_down_from_different_shells(binaries: Binaries, tmp_path: Path) -> None:
    """`up` returns while everything runs on, `status` sees it, `down` leaves no process and no file."""
    code, out, problems = await run_testbed(tmp_path, "up", "--nodes", "2", "--name", "mine")
    assert code == 0, problems
    kubeconfig = Path(out.strip().removeprefix("export KUBECONFIG="))
    try:
        second = await run_testbed(tmp_path, "up", "--name", "mine")
        assert second[0] == 1
        assert "runs already" in second[2]
        code, out, _ = await run_testbed(tmp_path, "status")
        assert code == 0
        assert "mine: Kubernetes 1.37.0, 2 simulated nodes" in out
        pids = [int(word) for word in out.replace("│", " ").split() if word.isdigit() and len(word) > 1]
        assert len(pids) == 5
        started = [psutil.Process(pid) for pid in pids]
        nodes = await asyncio.create_subprocess_exec(
            binaries["kubectl"],
            f"--kubeconfig={kubeconfig}",
            "wait",
            "--for=condition=Ready",
            "node/node-0",
            "node/node-1",
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await nodes.wait() == 0
    finally:
        code, _, problems = await run_testbed(tmp_path, "down", "--name", "mine")
    assert code == 0, problems
    # An orphan that ended stays a zombie where process 1 does not wait for it.
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in started)
    assert not kubeconfig.parent.exists()
    assert "no testbed is up" in (await run_testbed(tmp_path, "status"))[1]


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGKILL])
async def test_components_end_with_their_owner(binaries: Binaries, word: signal.Signals) -> None:
    """Ctrl-C ends them in order and deletes the data; after SIGKILL the kernel ends them."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OWNER,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": "operator:."},
        start_new_session=True,
    )
    assert owner.stdout is not None
    async with asyncio.timeout(180):  # the start of each component has two minutes
        folder, *pids = (await owner.stdout.readline()).decode().split()
    components = [psutil.Process(int(pid)) for pid in pids]
    assert len(components) == 2
    owner.send_signal(word)
    async with asyncio.timeout(60):
        await owner.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, components, 30)
    assert not alive
    if word == signal.SIGINT:
        assert not await asyncio.to_thread(Path(folder).exists)
    else:
        await asyncio.to_thread(shutil.rmtree, folder)


async def test_a_recycled_process_id_is_left_alone(tmp_path: Path) -> None:
    """A process with the recorded id that started at another time is not ours."""
    stranger = Process.start("stranger", ["sleep", "60"], tmp_path / "log")
    recorded = Process.adopt("ours", Identity(stranger.pid, stranger.identity.started - 5), tmp_path / "log")
    assert not recorded.running()
    await recorded.stop(0.1)
    assert stranger.running()
    await stranger.stop(1)
    assert not stranger.running()


@pytest.mark.slow
async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """After the grace period nothing is asked any more, and children of the program go with it."""
    log = tmp_path / "log"
    stubborn = Process.start("stubborn", ["sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; wait"], log)
    async with asyncio.timeout(60):
        while not log.read_text().strip():  # noqa: ASYNC110 - a file rings no bell
            await asyncio.sleep(0.02)
    child = psutil.Process(int(log.read_text()))
    await stubborn.stop(0.2)
    assert not stubborn.running()
    await asyncio.to_thread(psutil.wait_procs, [child], 30)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
