"""A crash at any step loses nothing: killed there, started again, the story ends as if nothing had happened.

The checks look at the simulated hardware's state file, the CDI folder, the API and, with plain SQL, the journal.
"""

import asyncio
from typing import TypeVar

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.places import H100
from tests.agent.simulatednode import PARTITIONS, MakeNode, SimulatedNode, holder

T = TypeVar("T")
DEVICE = "gpu-0-mig-1g10gb-19-3"
STEPS = [
    "partition.intent",
    "hardware.half_made",
    "hardware.created",
    "partition.created",
    "partition.ready",
    "status.written",
    "claim.preparing",
    "claim.bound",
    "cdi.written",
    "claim.injected",
    "claim.prepared",
    "claim.unpreparing",
    "cdi.removed",
    "claim.gone",
    "partition.releasing",
    "hardware.destroyed",
    "partition.gone",
]


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_is_made_good(make_node: MakeNode, namespace: str, step: str) -> None:
    """One partition, never two; in use, never touched; at the end nothing is left anywhere."""
    async with make_node(cards=[H100]) as node, killed_agent(node, step) as agent:
        claim = await node.claim(namespace, "lives", DEVICE)
        await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
        ready = await agent.insist(lambda: node.phase(DEVICE, "Ready"))
        (live,) = node.hardware()
        assert live["complete"]
        assert ready["status"]["uuid"] == live["uuid"]

        async def error() -> str:
            return await node.prepared(claim)

        # Kubelet asks again when it gets an error, too.
        await agent.insist(lambda: eventually(error, lambda text: text == ""))
        (cdi,) = node.cdi().values()
        assert f"APPORTION_PARTITION_UUID={live['uuid']}" in cdi["containerEdits"]["env"]
        assert node.hardware() == [live]
        await agent.insist(lambda: node.unprepare(claim))
        assert node.cdi() == {}
        await node.remove(DEVICE)
        await agent.insist(lambda: eventually(lambda: node.see(DEVICE), lambda item: item == {}))
        assert node.hardware() == []
        assert journal_steps(node) == ([], [])
        assert agent.deaths == 1


async def test_a_partition_whose_object_vanished_while_the_agent_was_away_is_removed(
    make_node: MakeNode,
) -> None:
    """The journal knows it as ours, and nobody wants it."""
    async with make_node(cards=[H100]) as node:
        async with node.agent():
            await node.partition(DEVICE, "1g.10gb", origin="Warm")
            await node.phase(DEVICE, "Idle")
        await node.api.patch(f"{PARTITIONS}/{node.name}-{DEVICE}", {"metadata": {"finalizers": []}})
        await node.remove(DEVICE)
        assert len(node.hardware()) == 1
        async with node.agent():
            await eventually(lambda: _hardware(node), lambda live: live == [])


async def test_a_prepared_partition_survives_the_loss_of_its_object(
    make_node: MakeNode, namespace: str
) -> None:
    """In use means in use, whatever the API says; it goes when kubelet unprepares."""
    async with make_node(cards=[H100]) as node:
        async with node.agent():
            claim = await node.claim(namespace, "busy", DEVICE)
            await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
            assert await node.prepared(claim) == ""
        await node.api.patch(f"{PARTITIONS}/{node.name}-{DEVICE}", {"metadata": {"finalizers": []}})
        await node.remove(DEVICE)
        async with node.agent():
            await asyncio.sleep(0.5)
            assert len(node.hardware()) == 1
            await node.unprepare(claim)
            await eventually(lambda: _hardware(node), lambda live: live == [])


async def test_after_a_reboot_partitions_are_remade_and_nothing_is_prepared(
    make_node: MakeNode, namespace: str
) -> None:
    """MIG instances, CDI files and containers are gone; the wishes are not."""
    async with make_node(cards=[H100]) as node:
        async with node.agent():
            claim = await node.claim(namespace, "again", DEVICE)
            await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
            assert await node.prepared(claim) == ""
            (before,) = node.hardware()
        with node.switchboard() as state:
            state["partitions"].clear()
        (node.folder / "boot").write_text("second boot", encoding="utf-8")
        for path in (node.folder / "cdi").iterdir():
            path.unlink()
        async with node.agent():
            ready = await eventually(
                lambda: node.see(DEVICE),
                # The first agent may have ended before it had written any status.
                lambda item: (
                    item.get("status", {}).get("uuid") not in (None, before["uuid"])
                    and "preparedBy" not in item["status"]
                ),
            )
            (after,) = node.hardware()
            assert ready["status"]["uuid"] == after["uuid"]
            assert await node.prepared(claim) == ""
            (cdi,) = node.cdi().values()
            assert f"APPORTION_PARTITION_UUID={after['uuid']}" in cdi["containerEdits"]["env"]


async def test_a_lost_journal_is_rebuilt_from_the_api_and_the_hardware(make_node: MakeNode) -> None:
    """The partition's UUID stands in the object's status: it is ours, and not made a second time."""
    async with make_node(cards=[{"model": "910B4"}]) as node:
        async with node.agent():
            await node.partition(
                "npu-0-vir05-1c-8g-0", "vir05_1c_8g", origin="Warm", driver="npu.apportion.dev"
            )
            await node.phase("npu-0-vir05-1c-8g-0", "Idle")
            before = node.hardware()
        (node.folder / "state" / "journal.db").write_bytes(b"this is no database, but it was one once" * 200)
        async with node.agent():
            await eventually(lambda: _steps(node), lambda steps: steps == ["Ready"])
            assert node.hardware() == before
            assert (node.folder / "state" / "journal.broken").exists()
            await node.remove("npu-0-vir05-1c-8g-0")
            await eventually(lambda: _hardware(node), lambda live: live == [])


async def _hardware(node: SimulatedNode) -> list[Json]:
    return node.hardware()


async def _steps(node: SimulatedNode) -> list[str]:
    return journal_steps(node)[0]


async def test_two_agents_of_a_rolling_update_make_each_partition_once(
    make_node: MakeNode, namespace: str
) -> None:
    """Old and new run side by side on the same card: no half-made partition of the other is torn down."""
    profiles = [(f"gpu-0-mig-1g10gb-19-{n}", n) for n in range(7)]
    async with (
        make_node(cards=[H100], faults={"createDelay": 0.05}) as node,
        node.agent(),
        node.agent(instance="new"),
    ):
        for device, _ in profiles:
            await node.partition(device, "1g.10gb", origin="Warm")
        for device, _ in profiles:
            await node.phase(device, "Idle")
        assert sorted(live["start"] for live in node.hardware()) == list(range(7))
        # Ids count creations: more than seven would mean that one was made, torn down and made again.
        assert max(int(live["instance"]["gpuInstance"]) for live in node.hardware()) == 7
        claim = await node.claim(namespace, "either", profiles[0][0])
        path = f"{PARTITIONS}/{node.name}-{profiles[0][0]}"
        await node.api.patch(path, {"spec": {"holder": holder(claim)}})
        assert await node.prepared(claim) == ""
