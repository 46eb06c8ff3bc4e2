"""The driver or the host refuses what a claim asks for, or refuses its defaults afterwards: what was done is taken back, and nothing else."""

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from apportion.agent.devices.sharing import TimeSlice
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing.setups import Setups
from apportion.errors import HardwareError, NotReady, Unsupported
from testbed.eventually import eventually
from testbed.fakes.systemd import REFUSED
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes
from tests.agent.nvml.sharinghost import systemd_on
from tests.agent.places import GPU
from tests.agent.sharing.test_unanswered_setups import left_on, rows, setups_of

COMPUTE_MODE = "nvmlDeviceSetComputeMode"
DEFAULTS = (0, 0)


class Killed(Exception):  # noqa: N818 - what happened
    """Stands for the end of the process."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Give a folder with a short name: the path of a socket has 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="apportion-") as folder:
        yield Path(folder)


async def killed_at(step: str, node: OneCard, setups: Setups, row: SharingRow) -> None:
    """Set a claim's devices up until a step, after which nothing is done and nothing is written."""

    def end(reached: str) -> None:
        if reached == step:
            raise Killed

    node.context.at = end
    with suppress(Killed):
        await setups.set_up(row, 10.0)
    node.context.at = lambda _: None


def percentage(folder: Path, gpu: Node, row: SharingRow) -> str:
    """Ask a row's daemon for its limit, as its clients would."""
    pipe = str(folder / "mps" / row.daemon / "pipe")
    command = "get_default_active_thread_percentage\n"
    program = gpu.root / "usr/bin/nvidia-cuda-mps-control"
    environment = {"CUDA_MPS_PIPE_DIRECTORY": pipe}
    done = subprocess.run(
        [program], env=environment, input=command, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


async def test_of_two_cards_of_which_one_refuses_the_other_is_taken_back(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """What the second cannot do was not done, and asking it for its default would be refused for ever."""
    gpu = make_gpus(["H100-80GB", "H100-80GB"])
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        first, second = (
            SharedDevice(card.name, card.uuid, card.uuid, mps=True)
            for card in sorted(node.context.hardware.cards.values(), key=lambda card: card.uuid)
        )
        number = int(second.device.removeprefix("gpu-"))
        gpu.fake.fail(COMPUTE_MODE, pynvml.NVML_ERROR_NOT_SUPPORTED, times=-1, card=number)
        with pytest.raises(Unsupported, match=COMPUTE_MODE):
            await setups.set_up(SharingRow("a", GPU, (first, second)), 10.0)
        assert [row.devices for row in node.context.journal.sharing()] == [(first,)]
        assert [*(tmp_path / "mps").iterdir()] == []
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()
        assert [gpu.fake.shared(n) for n in (0, 1)] == [DEFAULTS, DEFAULTS]


async def test_a_time_slice_before_a_refused_daemon_is_taken_back(tmp_path: Path, make_gpus: Nodes) -> None:
    """A claim's row names what it has had set up, also when the rest of what it asked for was refused."""
    gpu = make_gpus(["H100-80GB", "H100-80GB"])
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        first, second = sorted(node.context.hardware.cards.values(), key=lambda card: card.name)
        sliced = SharedDevice(first.name, first.uuid, first.uuid, TimeSlice.LONG)
        row = SharingRow("a", GPU, (SharedDevice(second.name, second.uuid, second.uuid, mps=True), sliced))
        gpu.fake.fail(COMPUTE_MODE, pynvml.NVML_ERROR_NOT_SUPPORTED, times=-1, card=1)
        for _ in range(2):
            with pytest.raises(Unsupported, match=COMPUTE_MODE):
                await setups.set_up(row, 10.0)
            assert [row.devices for row in node.context.journal.sharing()] == [(sliced,)]
            assert gpu.fake.shared(0) == (0, int(TimeSlice.LONG))
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()
        assert gpu.fake.shared(0) == DEFAULTS


async def test_a_time_slice_that_is_refused_after_kubelet_gave_up_leaves_nothing(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Its pod may be gone by then: its default would be refused for ever, and nobody else could have the GPU set up otherwise."""
    gpu = make_gpus()
    asked, answers = tmp_path / "asked", tmp_path / "answers"
    program = f"touch {asked}\nuntil [ -e {answers} ]; do sleep 0.1; done\necho Timeslice is not supported\nexit 1\n"
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        (gpu.root / "usr/bin/nvidia-smi").write_text(f"#!/bin/sh\n{program}")
        setups = setups_of(tmp_path, node)
        sliced, shared = rows(node)
        call = asyncio.create_task(setups.set_up(sliced, 10.0))
        await eventually(lambda: asyncio.to_thread(asked.exists))
        call.cancel()
        answers.touch()
        await asyncio.wait({call})
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()
        await setups.set_up(replace(shared, uid="b"), 10.0)


async def test_a_time_slice_that_was_not_asked_for_when_kubelet_gave_up_leaves_nothing(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The compute mode before it is waited for; the driver would refuse the default of what was never set."""
    gpu = make_gpus()
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        (gpu.root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\necho Timeslice is not supported\nexit 1\n")
        setups = setups_of(tmp_path, node)
        sliced, shared = rows(node)
        call: list[asyncio.Task[object]] = []
        node.context.at = lambda step: call[0].cancel() if step == "sharing.intent" else None
        call.append(asyncio.create_task(setups.set_up(sliced, 10.0)))
        await asyncio.wait(call)
        node.context.at = lambda _: None
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()
        await setups.set_up(replace(shared, uid="b"), 10.0)


async def test_what_an_earlier_try_has_set_is_taken_back_after_one_that_failed_before_it(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The second try begins anew and has begun nothing; the claim's row is all that tells of the first."""
    gpu = make_gpus()
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        sliced, _ = rows(node)
        await killed_at("sharing.time_slice", node, setups, sliced)
        assert gpu.fake.shared(0) != DEFAULTS
        gpu.fake.fail(COMPUTE_MODE, pynvml.NVML_ERROR_UNKNOWN, times=1)
        with pytest.raises(HardwareError):
            await setups.set_up(sliced, 10.0)
        await setups.end("a", GPU)
        assert gpu.fake.shared(0) == DEFAULTS


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_UNKNOWN])
async def test_defaults_that_a_card_refuses_are_set_when_it_takes_them(
    tmp_path: Path, make_gpus: Nodes, code: int
) -> None:
    """A GPU that has to be reset first, or is lost and says Unknown Error, keeps no pod Terminating, and is set up otherwise for nobody until it has its defaults."""
    gpu = make_gpus()
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        sliced, shared = rows(node)
        await setups.set_up(shared, 10.0)
        gpu.fake.fail(COMPUTE_MODE, code, times=-1)
        await setups.end("a", GPU)
        await setups.keep()
        assert gpu.fake.shared(0) != DEFAULTS
        with pytest.raises(NotReady, match="by claim a"):
            await setups.set_up(replace(sliced, uid="b"), 10.0)
        gpu.fake.drop_rules()
        await setups.keep()
        assert node.context.journal.sharing() == ()
        assert await left_on(gpu, node) == []


async def test_a_daemon_that_was_never_ready_is_ended_when_systemd_answers(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Nobody has used it, so its claim ends without it; who wants the GPU otherwise gets it, and nobody gets a daemon with its limits."""
    gpu = make_gpus()
    socket = gpu.root / "run/dbus/system_bus_socket"
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        sliced, shared = rows(node)
        await killed_at("sharing.daemon", node, setups, replace(shared, percentage=10))
        hidden = socket.rename(tmp_path / "hidden")
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()
        assert gpu.fake.shared(0) == DEFAULTS
        with pytest.raises(NotReady, match="systemd does not answer"):
            await setups.set_up(replace(shared, uid="b"), 10.0)
        await setups.set_up(replace(sliced, uid="c"), 10.0)
        await setups.end("c", GPU)
        hidden.rename(socket)
        assert len(await node.context.hardware.daemons()) == 1
        await setups.keep()
        assert await left_on(gpu, node) == []
        assert [*(tmp_path / "mps").iterdir()] == []


async def test_a_claim_gets_no_daemon_with_the_limits_of_one_that_has_gone(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """A daemon that runs counts as one that has taken its limits; one that is left over has those of the former claim."""
    gpu = make_gpus()
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        _, shared = rows(node)
        socket = gpu.root / "run/dbus/system_bus_socket"
        await killed_at("sharing.daemon", node, setups, replace(shared, percentage=10))
        hidden = socket.rename(tmp_path / "hidden")
        await setups.end("a", GPU)
        hidden.rename(socket)
        assert percentage(tmp_path, gpu, shared) == "10.0"
        await setups.set_up(replace(shared, uid="b", percentage=20), 10.0)
        assert percentage(tmp_path, gpu, shared) == "20.0"


async def test_a_daemon_that_the_host_refuses_to_end_keeps_no_claim_and_no_compute_mode(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The pod would stay Terminating for ever; programs of the next one would find the GPU closed."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        setups = setups_of(tmp_path, node)
        _, shared = rows(node)
        unit = f"apportion-mps-{shared.daemon}.service"
        async with systemd_on(gpu.root, gpu.fake, {REFUSED: unit}):
            await setups.set_up(shared, 10.0)
            await setups.end("a", GPU)
            assert node.context.journal.sharing() == ()
            assert gpu.fake.shared(0) == DEFAULTS
            with pytest.raises(Unsupported, match="systemd refuses StopUnit"):
                await setups.set_up(replace(shared, uid="b", percentage=20), 10.0)
            # By its folder the next looks find it, also those of the next agent.
            assert [path.name for path in (tmp_path / "mps").iterdir()] == [shared.daemon]
