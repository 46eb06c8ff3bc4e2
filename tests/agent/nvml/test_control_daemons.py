"""Claims that ask how their programs share a GPU: it is set up before they start, and taken back after them."""

import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.mps import FORGETS
from testbed.fakes.nvml.smi import REFUSES
from testbed.fakes.systemd import SILENT
from tests.agent.killedagent import KilledAgent, journal_steps, killed_agent
from tests.agent.nvml.nodes import MakeFake
from tests.agent.nvml.sharinghost import SharingHost, mps, sharing_host, sliced
from tests.agent.simulatednode import holder

MakeHost = Callable[..., AbstractAsyncContextManager[SharingHost]]
DEFAULT, EXCLUSIVE_PROCESS = 0, 3
TERMS = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}
STEPS = [
    "claim.preparing",
    "sharing.intent",
    "sharing.folders",
    "sharing.exclusive",
    "sharing.daemon",
    "sharing.time_slice",
    "sharing.done",
    "cdi.written",
    "cdi.removed",
    "sharing.daemon_ended",
    "sharing.taken_back",
    "sharing.gone",
    "claim.gone",
]


@pytest.fixture
def hosted(faked: MakeFake) -> MakeHost:
    """Make a host with NVIDIA's programs and a systemd around fake GPUs."""

    @asynccontextmanager
    async def make(*models: str) -> AsyncIterator[SharingHost]:
        async with faked(*models) as (node, fake), sharing_host(node, fake) as host:
            yield host

    return make


async def prepared(agent: KilledAgent, host: SharingHost, claim: Json) -> str:
    """Prepare a claim as a patient kubelet; returns the error."""
    answer = await agent.insist(lambda: eventually(lambda: host.node.prepare(claim), bool))
    error: str = answer[claim["metadata"]["uid"]].error
    return error


async def ready(agent: KilledAgent, host: SharingHost, claim: Json) -> None:
    """Prepare a claim until it is prepared."""

    async def error() -> str:
        return await host.node.prepared(claim)

    await agent.insist(lambda: eventually(error, lambda text: text == ""))


@pytest.mark.parametrize(("interval", "steps"), [("Short", 1), ("Medium", 2), ("Long", 3)])
async def test_a_gpu_has_the_time_slice_of_its_claim_as_long_as_that_is_prepared(
    hosted: MakeHost, namespace: str, interval: str, steps: int
) -> None:
    """The number is that of NVIDIA's program; the GPU beside keeps its own, and afterwards both have the driver's."""
    async with hosted("H100-80GB", "H100-80GB") as host, killed_agent(host.node, "never") as agent:
        claim = await host.node.claim(namespace, "slices", "gpu-0", config=[sliced(interval)])
        assert await prepared(agent, host, claim) == ""
        assert [host.fake.shared(gpu) for gpu in (0, 1)] == [(DEFAULT, steps), (DEFAULT, 0)]
        await host.node.unprepare(claim)
        assert host.left() == []


@pytest.mark.parametrize("missing", [True, False])
async def test_a_claim_whose_time_slice_cannot_be_set_is_not_prepared(
    hosted: MakeHost, namespace: str, monkeypatch: pytest.MonkeyPatch, *, missing: bool
) -> None:
    """The host has no nvidia-smi, or that refuses: kubelet shows field and reason, and no container starts without it."""
    monkeypatch.setenv(REFUSES, "Timeslice is not supported")
    async with hosted() as host, killed_agent(host.node, "never") as agent:
        if missing:
            (host.root / "usr/bin/nvidia-smi").unlink()
        claim = await host.node.claim(namespace, "slices", "gpu-0", config=[sliced("Long")])
        error = await prepared(agent, host, claim)
        assert "status.allocation.devices.config[0].opaque.parameters.sharing" in error
        assert ("has no nvidia-smi" if missing else "Timeslice is not supported") in error
        assert host.node.cdi() == {}


async def test_containers_of_a_claim_with_mps_find_a_daemon_that_has_their_limits(
    hosted: MakeHost, namespace: str
) -> None:
    """The GPU takes one process at a time, which is the daemon's server; afterwards nothing of it is left."""
    async with hosted("H100-80GB", "H100-80GB") as host, killed_agent(host.node, "never") as agent:
        claim = await host.node.claim(namespace, "shares", "gpu-0", config=[mps(**TERMS)])
        assert await prepared(agent, host, claim) == ""
        assert host.variables(claim) == {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps"}  # noqa: S108
        assert set(host.mounts(claim)) == {"/tmp/nvidia-mps", "/dev/shm"}  # noqa: S108
        assert host.ask(claim, "get_default_active_thread_percentage") == "50.0"
        assert host.ask(claim, "get_default_device_pinned_mem_limit 0") == "10240M"
        assert [host.fake.shared(gpu) for gpu in (0, 1)] == [(EXCLUSIVE_PROCESS, 0), (DEFAULT, 0)]
        await host.node.unprepare(claim)
        assert host.left() == []


async def test_only_containers_of_the_request_with_mps_get_its_daemon(
    hosted: MakeHost, namespace: str
) -> None:
    """As in NVIDIA's gpu-test5: one GPU of the claim has a time slice, the other one a daemon."""
    async with hosted("H100-80GB", "H100-80GB") as host, killed_agent(host.node, "never") as agent:
        config = [sliced("Long", "r0"), mps("r1", **TERMS)]
        claim = await host.node.claim(namespace, "both", "gpu-0", "gpu-1", config=config)
        assert await prepared(agent, host, claim) == ""
        assert (host.variables(claim), host.mounts(claim)) == ({}, {})
        assert host.ask(claim, "get_default_active_thread_percentage", "gpu-1") == "50.0"
        assert [host.fake.shared(gpu) for gpu in (0, 1)] == [(DEFAULT, 3), (EXCLUSIVE_PROCESS, 0)]
        await host.node.unprepare(claim)
        assert host.left() == []


async def test_a_mig_device_has_a_daemon_of_its_own(hosted: MakeHost, namespace: str) -> None:
    """The daemon knows the MIG device's UUID; the compute mode of its GPU is left alone."""
    device = "gpu-0-mig-3g40gb-9-4"
    async with hosted() as host, killed_agent(host.node, "never") as agent:
        config = [mps(kind="MigDeviceConfig", defaultPerDevicePinnedMemoryLimit={"0": "2Gi"})]
        claim = await host.node.claim(namespace, "part", device, config=config)
        await host.node.partition(device, "3g.40gb", holder=holder(claim))
        await ready(agent, host, claim)
        (live,) = host.fake.instances()
        asked = f"get_default_device_pinned_mem_limit {live.compute[0].uuid}"
        assert host.ask(claim, asked, device) == "2048M"
        assert host.fake.shared(0) == (DEFAULT, 0)
        await host.node.unprepare(claim)
        assert host.left() == []


async def test_programs_go_on_when_the_agent_is_killed_and_started_anew(
    hosted: MakeHost, namespace: str
) -> None:
    """Their daemon is no child of the agent: it is the same process before and after, and ends with the claim."""
    async with hosted() as host:
        async with killed_agent(host.node, "never") as agent:
            claim = await host.node.claim(namespace, "lives", "gpu-0", config=[mps(**TERMS)])
            assert await prepared(agent, host, claim) == ""
            (before,) = host.daemons()
        assert host.daemons() == [before]
        async with killed_agent(host.node, "never") as agent:
            assert await prepared(agent, host, claim) == ""
            assert host.daemons() == [before]
            await agent.insist(lambda: host.node.unprepare(claim))
            assert host.left() == []


async def test_a_daemon_that_died_is_started_anew_with_its_limits(hosted: MakeHost, namespace: str) -> None:
    """By the host, so that it needs no agent."""
    async with hosted() as host:
        async with killed_agent(host.node, "never") as agent:
            claim = await host.node.claim(namespace, "lives", "gpu-0", config=[mps(**TERMS)])
            assert await prepared(agent, host, claim) == ""
        (before,) = host.daemons()
        os.kill(before, signal.SIGKILL)

        async def daemons() -> list[int]:
            return host.daemons()

        await eventually(daemons, lambda found: bool(found) and found != [before])
        log = next(host.folder.glob("*/log/control.log"))

        async def times() -> int:
            return log.read_text().count("set_default_active_thread_percentage 50")

        await eventually(times, lambda count: count == 2)
        assert host.ask(claim, "get_default_active_thread_percentage") == "50.0"


async def test_a_daemon_that_refuses_its_limits_serves_nobody(hosted: MakeHost, namespace: str) -> None:
    """Its front end says so on its output only, with status 0: a claim without its limits would be worse than none."""
    async with hosted() as host, killed_agent(host.node, "never") as agent:
        claim = await host.node.claim(
            namespace, "refused", "gpu-0", config=[mps(defaultActiveThreadPercentage=7)]
        )
        program = host.root / "usr/bin/nvidia-cuda-mps-control"
        program.rename(program.with_suffix(".real"))
        forgets = f'touch "$CUDA_MPS_PIPE_DIRECTORY/{FORGETS}"'
        program.write_text(f'#!/bin/sh\n{forgets}\nexec "$0.real" "$@"\n', encoding="ascii")
        program.chmod(0o755)
        error = await prepared(agent, host, claim)
        assert "the daemon has not taken its limits" in error
        assert "config[0].opaque.parameters.sharing" in error
        assert host.node.cdi() == {}
        assert host.daemons() == []


async def test_a_host_without_systemd_prepares_no_claim_with_mps(faked: MakeFake, namespace: str) -> None:
    """Nothing there would keep a daemon while the agent is away."""
    async with faked() as (node, fake):
        async with sharing_host(node, fake) as host:
            pass
        shutil.rmtree(host.root / "run")
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "none", "gpu-0", config=[mps()])
            assert "was not started by systemd" in await prepared(agent, host, claim)
            await node.unprepare(claim)
            assert host.left() == []


@pytest.mark.parametrize(("silent", "why"), [("systemd", "ServiceUnknown"), ("bus", "does not answer")])
async def test_a_daemon_is_not_taken_for_gone_while_systemd_does_not_answer(
    faked: MakeFake, namespace: str, silent: str, why: str
) -> None:
    """Kubelet sees why the claim is not prepared, and its devices are free only when it is known that nothing runs."""
    async with faked() as (node, fake):
        async with sharing_host(node, fake) as host, killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "silent", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
        other = await node.claim(namespace, "other", "gpu-0", config=[mps()])
        uid = claim["metadata"]["uid"]
        async with sharing_host(node, fake, {SILENT: silent}) as host, killed_agent(node, "never") as agent:
            answer = await agent.insist(lambda: eventually(lambda: node.unprepare(claim), bool))
            assert why in answer[uid]
            assert journal_steps(node) == ([], ["Unpreparing"])
            assert "is held by" in await prepared(agent, host, other)
        async with sharing_host(node, fake) as host, killed_agent(node, "never") as agent:
            answer = await agent.insist(lambda: eventually(lambda: node.unprepare(claim), bool))
            assert answer[uid] == ""
            assert host.left() == []


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_while_devices_are_set_up_or_taken_back_is_made_good(
    hosted: MakeHost, namespace: str, step: str
) -> None:
    """At the end no process, folder, mode or slice is left, and the journal is empty."""
    async with hosted("H100-80GB", "H100-80GB") as host, killed_agent(host.node, step) as agent:
        config = [sliced("Long", "r0"), mps("r1", **TERMS)]
        claim = await host.node.claim(namespace, "killed", "gpu-0", "gpu-1", config=config)
        await ready(agent, host, claim)
        assert host.ask(claim, "get_default_device_pinned_mem_limit 0", "gpu-1") == "10240M"
        assert len(host.daemons()) == 1
        assert [host.fake.shared(gpu) for gpu in (0, 1)] == [(DEFAULT, 3), (EXCLUSIVE_PROCESS, 0)]
        await agent.insist(lambda: host.node.unprepare(claim))
        assert host.left() == []
        assert journal_steps(host.node) == ([], [])
        assert agent.deaths == 1


@pytest.mark.parametrize("step", [step for step in STEPS if step.startswith("sharing.")][:6])
async def test_a_kill_while_devices_are_set_up_leaves_nothing_when_kubelet_gives_up(
    hosted: MakeHost, namespace: str, step: str
) -> None:
    """Nobody prepares the claim a second time: what was begun is taken back by what the journal says."""
    async with hosted("H100-80GB", "H100-80GB") as host, killed_agent(host.node, step) as agent:
        config = [sliced("Long", "r0"), mps("r1", **TERMS)]
        claim = await host.node.claim(namespace, "given-up", "gpu-0", "gpu-1", config=config)

        async def begin_or_give_up() -> str:
            if agent.deaths:
                return await host.node.unprepared(claim)
            return await host.node.prepared(claim)

        assert await agent.insist(begin_or_give_up) == ""
        assert agent.deaths == 1
        assert host.left() == []
        assert journal_steps(host.node) == ([], [])
