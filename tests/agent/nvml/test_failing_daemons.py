"""Control daemons that do not run, and cannot be started anew: their devices are sick until they run."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from apportion.agent.proto.health_v1_pb2 import UNHEALTHY
from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.mps import FORGETS
from tests.agent.killedagent import killed_agent
from tests.agent.kubelet.claimentries import entries, says
from tests.agent.kubelet.healthlists import heard
from tests.agent.nvml.nodes import MakeFake
from tests.agent.nvml.sharinghost import SharingHost, mps, sharing_host
from tests.agent.nvml.test_control_daemons import prepared
from tests.agent.simulatednode import SimulatedNode

LIMIT = {"defaultActiveThreadPercentage": 7}
SICK, WELL = ("False", "Sick"), ("True", "Healthy")


@asynccontextmanager
async def no_daemon(host: SharingHost) -> AsyncIterator[None]:
    """Let control daemons end, and none start, until the block ends."""
    program = host.root / "usr/bin/nvidia-cuda-mps-control"
    kept = program.rename(program.with_suffix(".kept"))
    program.write_text("#!/bin/sh\necho 'no license' >&2\nexit 1\n", encoding="ascii")
    program.chmod(0o755)
    try:
        for pid in host.daemons():
            os.kill(pid, signal.SIGKILL)
        yield
    finally:
        kept.rename(program)


async def tainted(node: SimulatedNode) -> set[str]:
    """Return the devices that are published as sick."""
    return {
        name
        for name, device in (await node.devices()).items()
        if any(row["key"] == "apportion.dev/unhealthy" for row in device["taints"])
    }


async def condition(node: SimulatedNode, claim: Json) -> Json:
    """Return what a claim says of its device's health, whole."""
    (entry,) = (await entries(node.api, claim)).values()
    return next(row for row in entry["conditions"] if row["type"] == "Healthy")


async def test_a_daemon_that_cannot_be_started_makes_its_device_sick_until_it_runs(
    faked: MakeFake, namespace: str
) -> None:
    """Its taint, kubelet, its claim and an Event on the Node say so, with the reason; other GPUs are well."""
    async with (
        faked("H100-80GB", "H100-80GB") as (node, fake),
        sharing_host(node, fake) as host,
        killed_agent(node, "never") as agent,
    ):
        claim = await node.claim(namespace, "shares", "gpu-0", config=[mps()])
        assert await prepared(agent, host, claim) == ""
        async with no_daemon(host):
            assert await eventually(lambda: tainted(node), bool) == {"gpu-0"}
            await eventually(lambda: says(node.api, claim), lambda found: found == SICK)
            why = "its control daemon does not run, and programs cannot share it: apportion-mps-"
            assert (await condition(node, claim))["message"].startswith(why)
            async with node.health() as lists:
                rows = await heard(lists, lambda rows: rows["gpu-0"].health == UNHEALTHY)
                assert rows["gpu-0"].message.startswith(why)
                assert {name for name, row in rows.items() if row.health == UNHEALTHY} == {"gpu-0"}
            (event, *_) = await eventually(lambda: node.events("ControlDaemonFailing"), bool)
            assert event["message"].startswith(f"gpu-0: {why}")
        await eventually(lambda: tainted(node), lambda found: not found)
        await eventually(lambda: says(node.api, claim), lambda found: found == WELL)
        await eventually(lambda: node.events("ControlDaemonRecovered"), bool)
        assert host.ask(claim, "get_default_active_thread_percentage") == "100.0"


async def restarted(host: SharingHost) -> int:
    """Let a control daemon die while no agent looks; returns the one that systemd starts in its place, when it has got its limits."""
    (before,) = host.daemons()
    os.kill(before, signal.SIGKILL)

    async def answers() -> str:
        return "".join(path.read_text() for path in host.folder.glob("*/log/answers"))

    async def daemons() -> list[int]:
        return [pid for pid in host.daemons() if pid != before]

    # To the setting, and to the question after it.
    await eventually(answers, lambda text: text.count("\n") == 2)
    (after,) = await eventually(daemons, lambda found: len(found) == 1)
    return after


async def test_a_daemon_that_was_started_anew_without_its_limits_makes_its_device_sick(
    faked: MakeFake, namespace: str
) -> None:
    """To systemd it is active, but no program may have more than its claim allows: it is ended until it takes its limits."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "limited", "gpu-0", config=[mps(**LIMIT)])
            assert await prepared(agent, host, claim) == ""
        forgets = Path(host.mounts(claim)["/tmp/nvidia-mps"]) / FORGETS  # noqa: S108
        forgets.touch()
        await restarted(host)
        async with killed_agent(node, "never"):
            assert await eventually(lambda: tainted(node), bool) == {"gpu-0"}
            await eventually(lambda: says(node.api, claim), lambda found: found == SICK)

            async def reasons() -> list[str]:
                return [each["message"] for each in await node.events("ControlDaemonFailing")]

            why = "the daemon has not taken its limits; it answers: "
            await eventually(reasons, lambda found: any(why in text for text in found))
            assert all(text.startswith("gpu-0: its control daemon does not run") for text in await reasons())
            forgets.unlink()
            await eventually(lambda: tainted(node), lambda found: not found)
            await eventually(lambda: says(node.api, claim), lambda found: found == WELL)
            assert host.ask(claim, "get_default_active_thread_percentage") == "7.0"


async def test_a_daemon_that_was_started_anew_with_its_limits_goes_on(
    faked: MakeFake, namespace: str
) -> None:
    """The next agent reads what it answered, and ends it not; its device is well."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "limited", "gpu-0", config=[mps(**LIMIT)])
            assert await prepared(agent, host, claim) == ""
        after = await restarted(host)
        async with killed_agent(node, "never"):
            fake.ecc(1, 1)
            await eventually(
                lambda: tainted(node), lambda found: any(name.startswith("gpu-1") for name in found)
            )

            async def unread() -> list[Path]:
                return [*host.folder.glob("*/log/answers")]

            await eventually(unread, lambda found: found == [])
            assert not [name for name in await tainted(node) if name.startswith("gpu-0")]
            assert host.daemons() == [after]
            assert host.ask(claim, "get_default_active_thread_percentage") == "7.0"


async def test_a_sick_devices_claim_is_not_called_well_by_the_next_agent(
    faked: MakeFake, namespace: str
) -> None:
    """It asks for the daemon before it says anything of its device."""
    async with faked() as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "shares", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
        async with no_daemon(host):
            async with killed_agent(node, "never"):
                await eventually(lambda: says(node.api, claim), lambda found: found == SICK)
                before = await condition(node, claim)
            other = await node.claim(namespace, "other", "gpu-0", config=[mps()])
            async with killed_agent(node, "never") as agent:
                # What the agent says of the first claim comes before.
                assert "is held by" in await prepared(agent, host, other)
                await eventually(lambda: entries(node.api, other), bool)
                after = await condition(node, claim)
                assert after["lastTransitionTime"] == before["lastTransitionTime"]
                assert after["status"] == "False"


async def test_a_daemon_of_which_nobody_knows_is_not_taken_for_ended(
    faked: MakeFake, namespace: str, tmp_path: Path
) -> None:
    """While the host's bus does not answer, programs may go on: their device is not sick."""
    async with faked("H100-80GB", "H100-80GB") as (node, fake), sharing_host(node, fake) as host:
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "shares", "gpu-0", config=[mps()])
            assert await prepared(agent, host, claim) == ""
        socket = host.root / "run/dbus/system_bus_socket"
        hidden = socket.rename(tmp_path / "hidden")
        async with killed_agent(node, "never"):
            fake.ecc(1, 1)
            await eventually(lambda: tainted(node), bool)
            await eventually(lambda: node.events("CardSick"), bool)
            assert not [name for name in await tainted(node) if name.startswith("gpu-0")]
            assert await says(node.api, claim) is None
        hidden.rename(socket)
