"""How long a cut waits for the room of a partition that is being deleted."""

from collections.abc import Callable
from pathlib import Path

import pytest

from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.cluster.client import Object
from tests.agent.lifecycle.onecard import DEVICE, PLACE, OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend
from tests.clock import Clock

OTHER, WHOLE = "gpu-0-mig-3g40gb-9-0", "gpu-0-mig-7g80gb-0-0"


def a_claim(name: str) -> Object:
    return {"kind": "ResourceClaim", "namespace": "team", "name": name, "uid": name}


async def passing(node: OneCard, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
    """Let the card's worker make rounds for so long, or until something holds; returns the seconds that passed."""
    clock = Clock(0.0)
    node.context.clock = clock
    worker = CardWorker(node.context, "gpu-0")
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
        held = HeldClaims(node.context)
        held.looked.set()
        inventory = InventoryBuilder(node.context, held)
        leaving = node.partition("p0", origin="Warm")
        await node.work()
        node.delete(leaving)
        await passing(node, 600.0, lambda: bool(published))
        assert (await inventory.build()).occupied == (PLACE,)
        assert published == [None]
        await passing(node, 600.0, lambda: len(published) > 1)
        assert (await inventory.build()).occupied == ()
        assert await node.live() == ()


def refusing(times: int) -> Object:
    """Return faults of a driver that refuses so many removals."""
    return {"failures": [{"error": "Busy", "verb": "destroy", "times": times}]}
