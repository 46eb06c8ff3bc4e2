"""How long a cut waits for the room of a partition that is being deleted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.api.contract import HELD
from apportion.cluster.client import Object
from tests.agent.lifecycle.onecard import DEVICE, PLACE, OneCard, one_card
from tests.agent.places import GPU, H100, NPU, MakeBackend
from tests.clock import Clock

COPY = "npu-0-vir05-1c-8g-0"
OTHER, WHOLE = "gpu-0-mig-3g40gb-9-0", "gpu-0-mig-7g80gb-0-0"


def a_claim(name: str) -> Object:
    return {"kind": "ResourceClaim", "namespace": "team", "name": name, "uid": name}


async def passing(
    node: OneCard, seconds: float, until: Callable[[], bool] = lambda: False, *, card: str = "gpu-0"
) -> float:
    """Let the card's worker make rounds for so long, or until something holds; returns the seconds that passed."""
    clock = Clock(0.0)
    node.context.clock = clock
    worker = CardWorker(node.context, card)
    while clock.now < seconds:
        worker.wake()
        await worker.round()
        if until():
            break
        clock.now += 2.0
    return clock.now


async def test_a_cut_does_not_wait_for_a_partition_that_goes_when_its_pod_has_ended(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Somebody deleted the Partition of a running pod, which is safe and takes days; the claim goes elsewhere once the cut has failed."""
    theirs = {"card": "gpu-0", "profile": "3g.40gb", "start": 4}
    async with one_card(tmp_path, make_backend(cards=[H100], foreign=[theirs])) as node:
        used = node.partition("p0", OTHER, origin="Claim", holder=a_claim("a"))
        await node.work()
        card = node.context.hardware.cards["gpu-0"]
        device = ClaimDevice(OTHER, card.name, "n", ("r0",), "cdi", partition="p0", card_uuid=card.uuid)
        node.context.journal.reserve(ClaimRow("a", GPU, "team", "a", ClaimStep.PREPARED, (device,)))
        node.delete(used)
        wanted = node.partition("p1", DEVICE, origin="Claim", holder=a_claim("c"))
        room = node.context.timeouts.room
        waited = await passing(node, 3600.0, lambda: node.status(wanted)["phase"] == "Failed")
        assert room <= waited <= room + 2.0
        assert node.status(used)["phase"] == "Releasing"
        assert len(await node.live()) == 2


@pytest.mark.slow
async def test_a_cut_waits_for_a_partition_whose_removal_takes_longer(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A driver may refuse for a while after a process has ended; the claim needs no other place then."""
    async with one_card(tmp_path, make_backend(cards=[H100], faults=refusing(times=20))) as node:
        leaving = node.partition("p0", origin="Claim", holder=a_claim("a"))
        await node.work()
        node.delete(leaving)
        wanted = node.partition("p1", WHOLE, profile="7g.80gb", origin="Claim", holder=a_claim("c"))
        waited = await passing(node, 3600.0, lambda: node.status(wanted)["phase"] != "Pending")
        assert node.status(wanted)["phase"] == "Ready"
        assert waited == 40.0


@pytest.mark.slow
async def test_a_cut_does_not_wait_for_ever_for_a_partition_that_the_driver_does_not_remove(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A process that nobody knows of may hold it for days."""
    async with one_card(tmp_path, make_backend(cards=[H100], faults=refusing(times=9_999))) as node:
        leaving = node.partition("p0", origin="Claim", holder=a_claim("a"))
        await node.work()
        node.delete(leaving)
        wanted = node.partition("p1", WHOLE, profile="7g.80gb", origin="Claim", holder=a_claim("c"))
        removal = node.context.timeouts.removal
        waited = await passing(node, 3600.0, lambda: node.status(wanted)["phase"] == "Failed")
        assert removal <= waited <= removal + 2.0
        assert node.status(leaving)["phase"] == "Releasing"


@pytest.mark.slow
async def test_a_place_from_which_the_driver_removes_no_partition_is_offered_to_nobody(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """What nobody holds is in the slices as free: the next claim would wait for it, too, and the one after that."""
    async with one_card(tmp_path, make_backend(cards=[H100], faults=refusing(times=50))) as node:
        published: list[None] = []
        node.context.slices_changed = lambda: published.append(None)
        inventory = building(node)
        await leaving_at_place(node)
        await passing(node, 600.0, lambda: bool(published))
        assert (await inventory.build()).occupied == (PLACE,)
        assert published == [None]
        await passing(node, 600.0, lambda: len(published) > 1)
        assert (await inventory.build()).occupied == ()
        assert await node.live() == ()


@pytest.mark.slow
async def test_a_copy_of_a_template_that_the_driver_does_not_remove_is_offered_to_nobody(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The other copies have room, and each claim would be given the first one: it has no place of its own that could be taken."""
    chip = make_backend(cards=[{"model": "910B4"}], faults=refusing(times=50))
    async with one_card(tmp_path, chip) as node:
        published: list[None] = []
        node.context.slices_changed = lambda: published.append(None)
        inventory = building(node)
        spec = {"driver": NPU, "parent": "npu-0", "profile": "vir05_1c_8g", "origin": "Warm"}
        leaving = node.partition("p0", COPY, **spec)
        await CardWorker(node.context, "npu-0").round()
        node.delete(leaving)
        await passing(node, 600.0, lambda: bool(published), card="npu-0")
        made = await inventory.build()
        assert [taint.key for taint in made.taints[COPY]] == [HELD]
        assert len(made.occupied) == 1
        await passing(node, 600.0, lambda: len(published) > 1, card="npu-0")
        assert COPY not in (await inventory.build()).taints


@pytest.mark.slow
async def test_an_agent_that_starts_offers_no_place_that_the_driver_refused_the_former_one(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It has no clock of the former one: a claim that got the place meanwhile would wait for it."""
    async with one_card(tmp_path, make_backend(cards=[H100], faults=refusing(times=9_999))) as node:
        await leaving_at_place(node)
        await passing(node, 4.0)
        assert (await building(node).build()).occupied == ()
        await passing(node, 2.0)
        assert (await building(node).build()).occupied == (PLACE,)


@pytest.mark.slow
async def test_the_place_of_a_partition_that_a_claim_has_anew_is_counted_once(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its allocation counts it; an administrator prepared it anew from the file by which it had been prepared before."""
    async with one_card(tmp_path, make_backend(cards=[H100], faults=refusing(times=9_999))) as node:
        await leaving_at_place(node)
        await passing(node, 600.0, lambda: bool(node.context.stuck))
        card = node.context.hardware.cards["gpu-0"]
        device = ClaimDevice(DEVICE, card.name, "n", ("r0",), "cdi", partition="p0", card_uuid=card.uuid)
        node.context.journal.reserve(ClaimRow("a", GPU, "team", "a", ClaimStep.PREPARED, (device,)))
        await passing(node, 2.0)
        assert node.context.stuck == set()


async def leaving_at_place(node: OneCard) -> None:
    """Have a warm partition cut at PLACE, and its object deleted."""
    leaving = node.partition("p0", origin="Warm")
    await node.work()
    node.delete(leaving)


def building(node: OneCard) -> InventoryBuilder:
    """Return who builds what the node publishes; no claim has lost its devices."""
    held = HeldClaims(node.context)
    held.looked.set()
    return InventoryBuilder(node.context, held)


def refusing(times: int) -> Object:
    """Return faults of a driver that refuses so many removals."""
    return {"failures": [{"error": "Busy", "verb": "destroy", "times": times}]}
