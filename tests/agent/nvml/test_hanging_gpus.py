"""One GPU whose driver calls do not return costs nobody the others."""

import threading
import time

import pynvml
import pytest

from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.values import Health, PartitionPlace, Placement
from apportion.errors import HardwareError, Lost
from testbed.eventually import eventually
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake, Node, Nodes
from tests.agent.simulatednode import holder

DEADLINE = 3.0
"""Seconds for a question to all cards; a busy machine asks those that answer within it."""


async def test_an_agent_serves_the_other_gpus_while_one_does_not_answer(
    faked: MakeFake, namespace: str
) -> None:
    """It is tainted as sick, an XID error of another one is seen, and claims for others are cut and prepared."""
    other = "gpu-1-mig-3g40gb-9-4"
    async with (
        faked("H100-80GB", "H100-80GB", "H100-80GB") as (node, fake),
        killed_agent(node, "never", prepare_timeout=5) as agent,
    ):
        await eventually(node.devices, bool)
        fake.hang("*", card=0)
        fake.xid(2, 79)

        async def unhealthy() -> set[str]:
            devices = await node.devices()
            taints = {name: [row["key"] for row in device["taints"]] for name, device in devices.items()}
            return {
                name
                for name, keys in taints.items()
                if "apportion.dev/unhealthy" in keys and "mig" not in name
            }

        assert await eventually(unhealthy, lambda found: len(found) == 2) == {"gpu-0", "gpu-2"}
        claim = await node.claim(namespace, "part", other)
        await node.partition(other, "3g.40gb", holder=holder(claim))
        await agent.insist(lambda: eventually(lambda: node.prepared(claim), lambda error: error == ""))
        stuck = await node.claim(namespace, "stuck", "gpu-0")
        answer = await agent.insist(lambda: eventually(lambda: node.prepare(stuck), bool))
        assert "has not answered" in answer[stuck["metadata"]["uid"]].error
        fake.drop_rules()
        assert await eventually(unhealthy, lambda found: len(found) == 1) == {"gpu-2"}
        await eventually(lambda: node.prepared(stuck), lambda error: error == "")


async def hanging(node_with: Nodes) -> tuple[Node, Hardware]:
    """Make three GPUs, each cut into one partition, of which the second does not answer any more."""
    node = node_with(["H100-80GB"] * 3)
    hardware = Hardware([node.backend], patience=DEADLINE)
    for card in await hardware.discover():
        await hardware.create(PartitionPlace(card, "3g.40gb", Placement(0, 4)))
    await hardware.partitions()
    node.fake.hang("*", card=1)
    return node, hardware


@pytest.mark.slow
async def test_a_gpu_that_does_not_answer_is_sick_and_keeps_what_was_seen_on_it(node_with: Nodes) -> None:
    """The others are listed as ever; who decides about the hanging one is refused, and it is well when it answers."""
    node, hardware = await hanging(node_with)
    node.fake.xid(2, 79)
    live = {found.card for found in await hardware.partitions()}
    assert live == {"gpu-0", "gpu-1", "gpu-2"}
    await hardware.health()
    assert await hardware.health() == {
        "gpu-0": Health.HEALTHY, "gpu-1": Health.SICK, "gpu-2": Health.SICK,
    }  # fmt: skip
    with pytest.raises(HardwareError, match="gpu-1: the driver has not answered"):
        await hardware.partitions_of("gpu-1")
    with pytest.raises(HardwareError, match="gpu-1: the driver has not answered"):
        await hardware.edits("gpu-1")
    other = await hardware.create(PartitionPlace("gpu-0", "3g.40gb", Placement(4, 4)))
    assert other in await hardware.partitions_of("gpu-0")
    node.fake.drop_rules()

    async def well() -> bool:
        return (await hardware.health())["gpu-1"] is Health.HEALTHY

    await eventually(well)
    assert len(await hardware.partitions_of("gpu-1")) == 1


@pytest.mark.parametrize("call", ["*", "nvmlDeviceGetMemoryInfo"])
async def test_gpus_that_hang_when_an_agent_starts_cost_the_others_one_deadline(
    node_with: Nodes, call: str
) -> None:
    """The others are served. Those that hang are neither gone nor asked by one more thread each time, and there when they answer."""
    node = node_with(["H100-80GB"] * 4)
    for card in (0, 2):
        node.fake.hang(call, card=card)
    backend = NvmlBackend(node.root, calls=CardCalls(DEADLINE))
    hardware = Hardware([backend])
    began = time.monotonic()
    assert set(await hardware.discover()) == {"gpu-1", "gpu-3"}
    assert time.monotonic() - began < 2 * DEADLINE
    assert hardware.incomplete
    with pytest.raises(Lost, match="gpu-0: it was not found when GPUs were looked for"):
        await hardware.partitions_of("gpu-0")
    waiting = threading.active_count()
    for _ in range(3):
        assert set(await hardware.discover()) == {"gpu-1", "gpu-3"}
    assert threading.active_count() <= waiting + 2
    node.fake.drop_rules()
    await eventually(hardware.discover, lambda found: set(found) == {f"gpu-{index}" for index in range(4)})
    assert not hardware.incomplete


@pytest.mark.parametrize(
    "call",
    ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"],
)
async def test_a_gpu_whose_links_or_events_hang_costs_the_others_one_deadline(
    node_with: Nodes, call: str
) -> None:
    """All are served, the links of the others are known; those that hang are asked again, and keep their links."""
    node = node_with(["A100-80GB"] * 5)
    node.fake.nvlink([(0, 1), (2, 3)])
    for card in (2, 3):
        node.fake.hang(call, card=card)
    backend = NvmlBackend(node.root, calls=CardCalls(DEADLINE))
    hardware = Hardware([backend])

    async def linked() -> list[set[str]]:
        cards = await hardware.discover()
        groups = {card.attributes.get("nvlinkGroup", "") for card in cards.values()} - {""}
        return [
            {name for name, card in cards.items() if card.attributes.get("nvlinkGroup") == group}
            for group in groups
        ]

    began = time.monotonic()
    assert {"gpu-0", "gpu-1"} in await linked()
    assert time.monotonic() - began < 2 * DEADLINE
    assert len(hardware.cards) == 5
    assert hardware.incomplete == (call == "nvmlDeviceGetNvLinkState")
    node.fake.drop_rules()
    await eventually(linked, lambda found: {"gpu-2", "gpu-3"} in found and not hardware.incomplete)
    node.fake.hang(call, card=2)
    node.fake.hang(call, card=3)
    assert {"gpu-2", "gpu-3"} in await linked()
    node.fake.drop_rules()


@pytest.mark.parametrize("hangs", [True, False])
async def test_what_was_removed_is_not_among_what_was_last_seen(node_with: Nodes, *, hangs: bool) -> None:
    """A GPU that hangs, or fails, right after a removal shows what was seen on it; a partition without a row would pass for a person's."""
    node = node_with(["H100-80GB"] * 2)
    hardware = Hardware([node.backend], patience=DEADLINE)
    await hardware.discover()
    made = [
        await hardware.create(PartitionPlace("gpu-0", "3g.40gb", Placement(start, 4))) for start in (0, 4)
    ]
    assert await hardware.partitions() == tuple(made)
    await hardware.destroy(made[0])
    if hangs:
        node.fake.hang("*", card=0)
    else:
        node.fake.lose(0)
    for _ in range(2):
        assert await hardware.partitions() == (made[1],)
    node.fake.heal()


@pytest.mark.slow
async def test_a_gpu_that_does_not_answer_is_not_asked_anew(node_with: Nodes) -> None:
    """However often it is polled, no more than the first questions wait for it."""
    node, hardware = await hanging(node_with)
    await hardware.health()
    waiting = threading.active_count()
    for _ in range(5):
        await hardware.health()
        await hardware.partitions()

    async def threads() -> int:
        return threading.active_count()

    # Threads of the others end a moment after their answers.
    await eventually(threads, lambda count: count <= waiting)
    node.fake.drop_rules()


def test_a_call_that_comes_after_the_end_opens_no_session(node: Node) -> None:
    """It comes from a thread that waited for the driver; nobody would close the driver's device files after it."""
    node.backend.devices()
    node.backend.close()
    with pytest.raises(Lost, match="this backend is closed"):
        node.backend.partitions_of("gpu-1")
    with pytest.raises(pynvml.NVMLError, match="Uninitialized"):
        pynvml.nvmlShutdown()
