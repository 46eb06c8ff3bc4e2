"""What a worker leaves alone: a card that a claim has whole, and a partition that a person made."""

from pathlib import Path

import pytest

from apportion.agent.lifecycle.worker import CardWorker
from apportion.api.contract import STATIC_SUFFIX
from tests.agent.lifecycle.onecard import DEVICE, LAYOUT, PLACE, one_card
from tests.agent.places import GPU, H100, MakeBackend
from tests.clock import Clock


async def test_an_idle_partition_that_a_reboot_took_is_not_made_on_a_card_that_a_claim_has_whole(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its row is from before, and kubelet was faster than the worker: MIG mode would be switched on under the claim. It is made when that has gone."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        idle = node.partition("p1")
        await node.work()
        assert node.status(idle)["phase"] == "Idle"
        with backend.state.changing() as state:
            state["partitions"].clear()
        node.prepared("whole", "gpu-0")
        await node.work()
        assert await node.live() == ()
        (ready,) = node.status(idle)["conditions"]
        assert (node.status(idle)["phase"], ready["reason"]) == ("Pending", "CardInUse")
        node.context.journal.drop_claim("whole", GPU)
        await node.work()
        assert [found.place for found in await node.live()] == [PLACE]


@pytest.mark.slow
async def test_a_claim_waits_for_a_card_that_another_one_has_whole_no_longer_than_for_room(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Containers of a pod that was deleted by force run on: the operator gives the claim another card once the cut has failed."""
    holder = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "c"}
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("whole", "gpu-0")
        wanted = node.partition("p1", origin="Claim", holder=holder)
        clock = Clock(0.0)
        node.context.clock = clock
        worker = CardWorker(node.context, "gpu-0")
        await worker.round()
        assert node.status(wanted)["phase"] == "Pending"
        clock.now += node.context.timeouts.room + 1
        worker.wake()
        await worker.round()
        assert node.status(wanted)["phase"] == "Failed"
        node.context.journal.drop_claim("whole", GPU)
        clock.now += node.context.timeouts.failed + 1
        worker.wake()
        await worker.round()
        assert node.status(wanted)["phase"] == "Ready"


@pytest.mark.slow
async def test_a_persons_partition_is_not_adopted_in_order_to_be_removed(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A layout came and went while no agent was there: nothing was the layout's."""
    theirs = {"card": "gpu-0", "profile": "3g.40gb", "start": 4}
    async with one_card(tmp_path, make_backend(cards=[H100], foreign=[theirs]), adopt=True) as node:
        (before,) = await node.live()
        item = node.partition("p1", f"{DEVICE}{STATIC_SUFFIX}", origin="Layout", holder=LAYOUT)
        node.delete(item)
        await node.work()
        assert node.items == {}
        assert await node.live() == (before,)


async def test_a_layout_adopts_no_partition_that_is_anothers(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """No process uses it at the moment, and a claim has it: the next claim would get it by the layout's device."""
    async with one_card(tmp_path, make_backend(cards=[H100]), adopt=True) as node:
        warm = node.partition("p1")
        await node.work()
        static = node.partition("p2", f"{DEVICE}{STATIC_SUFFIX}", origin="Layout", holder=LAYOUT)
        await node.work()
        assert [node.status(each)["phase"] for each in (warm, static)] == ["Idle", "Pending"]
        assert [*node.context.journal.partitions()] == ["p1"]
