"""What a prepare call waits for: kubelet asks again for a pod that was refused after a minute or more."""

import asyncio
import time
from pathlib import Path

import pytest

from apportion.errors import NotReady
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.onecard import one_card
from tests.agent.nvml.nodes import Nodes
from tests.agent.places import H100, MakeBackend
from tests.agent.simulatednode import MakeNode

PLACES = ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1")
HOLDER = {"kind": "ResourceClaim", "namespace": REF.namespace, "name": REF.name, "uid": REF.uid}


async def test_a_whole_card_is_waited_for_while_idle_partitions_leave_it(
    make_node: MakeNode, namespace: str
) -> None:
    """The operator deletes them when it has allocated the card, and the pod comes meanwhile."""
    async with make_node(cards=[H100]) as node, node.agent():
        for place in PLACES:
            await node.partition(place, "1g.10gb", origin="Warm")
        for place in PLACES:
            await node.phase(place, "Idle")
        claim = await node.claim(namespace, "whole", "gpu-0")
        asked = asyncio.create_task(node.prepared(claim))
        for place in PLACES:
            await asyncio.sleep(0.5)
            await node.remove(place)
        assert await asked == ""
        assert node.hardware() == []


async def test_a_whole_card_is_refused_at_once_for_partitions_that_stay(
    make_node: MakeNode, namespace: str
) -> None:
    """Nobody knows when a layout's go, or those that a person made."""
    foreign = {"card": "gpu-1", "profile": "1g.10gb", "start": 6}
    layout = {"kind": "PartitionLayout", "name": "nightly", "uid": "layout-uid"}
    made = f"{PLACES[0]}-static"
    async with (
        make_node(cards=[H100 | {"count": 2}], foreign=[foreign]) as node,
        node.agent(prepare_timeout=120),
    ):
        await node.partition(made, "1g.10gb", holder=layout, origin="Layout")
        await node.phase(made, "Ready")
        began = time.monotonic()
        for number in range(2):
            whole = await node.claim(namespace, f"whole-{number}", f"gpu-{number}")
            assert "is still cut into 1g.10gb" in await node.prepared(whole)
        assert time.monotonic() - began < 60


async def test_a_whole_card_that_does_not_answer_in_time_is_waited_for(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """A driver takes seconds to open a GPU that nobody uses, and one that is asked for a partition is waited for."""
    gpus = make_gpus()
    async with one_card(tmp_path, gpus.backend, patience=0.1) as node:
        gpus.fake.hang("nvmlDeviceGetMigMode")
        asked = asyncio.ensure_future(preparer(tmp_path, node, "gpu-0").prepare(REF))
        assert await asyncio.wait({asked}, timeout=0.5) == (set(), {asked})
        gpus.fake.drop_rules()
        assert [device.device for device in await asked] == ["gpu-0"]


async def test_all_devices_of_a_claim_have_one_deadline(tmp_path: Path, make_backend: MakeBackend) -> None:
    """Kubelet gives up after 45 seconds, and its Event says nothing then of what the pod waits for."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        now, steps = [100.0], {step: asyncio.Event() for step in ("claim.preparing", "claim.bound")}
        node.context.clock = lambda: now[0]

        def at(step: str) -> None:
            if step in steps:
                steps[step].set()

        node.context.at = at
        asked = asyncio.create_task(preparer(tmp_path, node, *PLACES).prepare(REF))
        await steps["claim.preparing"].wait()
        now[0] += 29
        node.partition("p1", PLACES[0], profile="1g.10gb", origin="Claim", holder=HOLDER)
        await node.work()
        await steps["claim.bound"].wait()
        now[0] += 2
        with pytest.raises(NotReady, match=PLACES[1]):
            async with asyncio.timeout(60):
                await asked


async def test_a_claim_that_waits_keeps_the_files_of_no_other_from_being_renewed(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Kubelet asks again and again, for half a minute each time; others' containers start by device numbers that are not theirs any more."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        served = preparer(tmp_path, node, PLACES[0])
        asked = asyncio.create_task(served.prepare(REF))
        await eventually(lambda: asyncio.to_thread(node.context.journal.claims), bool)
        async with asyncio.timeout(20):
            assert not await served.restore_files(REF, {})
        assert not asked.done()
        asked.cancel()
        await asyncio.wait({asked})
