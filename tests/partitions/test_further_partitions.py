"""A person makes a further Partition for a device that a claim has, from a copy of the claim's own one: the operator goes on with that one."""

from datetime import UTC, datetime

import pytest

from apportion.api.partition import Phase
from apportion.cluster.client import Client
from apportion.cluster.kinds import PARTITIONS
from apportion.cluster.recorder import Recorder
from apportion.dra.device import DeviceId
from apportion.partitions.controller import PartitionController
from tests.observedcluster import Json
from tests.partitions.onecard import FIRST, OneCard
from tests.scheduling.givenback import tried

PART = DeviceId("gpu.apportion.dev", "n1", FIRST)


@pytest.fixture
def card() -> OneCard:
    """Give a card of which a claim has a partition."""
    card = OneCard()
    card.world.allocate(card.world.claim("c"), "n1", FIRST)
    card.carry_out()
    return card


def copied(card: OneCard, *, held: bool, phase: str = "") -> Json:
    """Show a copy of the claim's Partition, with its holder or without, of which an agent may have said something."""
    (own,) = card.world.snapshot.partitions.values()
    copy = own.to_json()
    copy["metadata"] = {"name": "a-copy", "uid": "a-copy"}
    copy["status"] = {"phase": phase} if phase else {}
    if not held:
        copy["spec"].pop("holder")
    return card.world.see(PARTITIONS, copy)


@pytest.mark.parametrize("held", [True, False], ids=["held", "unheld"])
def test_a_claim_is_ready_while_a_copy_of_its_partition_is_there_and_afterwards(
    unanswered: Client, card: OneCard, *, held: bool
) -> None:
    """Its pod, or the next one that shares the claim, waited behind its gate for a partition that had long been cut."""
    world = card.world
    recorder = Recorder(unanswered, component="x", clock=card.clock, now=lambda: datetime.now(UTC))
    controller = PartitionController(
        unanswered, world.snapshot, recorder, world.snapshot.state.programs,
        fence=lambda: None, clock=card.clock, now=lambda: datetime.now(UTC),
    )  # fmt: skip
    (claim,), (own,) = world.snapshot.claims.values(), world.snapshot.partitions.values()
    copy = copied(card, held=held)
    assert controller.phase(claim) is Phase.READY
    world.gone(PARTITIONS, copy)
    assert controller.phase(claim) is Phase.READY
    assert world.snapshot.devices.partition(PART) is own


@pytest.mark.parametrize("held", [True, False], ids=["held", "unheld"])
def test_a_copy_does_not_become_the_claims(card: OneCard, *, held: bool) -> None:
    """It cannot be cut where the claim's own one is, and a claim whose partition cannot be cut loses its devices."""
    copied(card, held=held, phase="Pending")
    assert card.actions() == []


async def test_a_claim_keeps_its_devices_when_a_copy_with_its_holder_cannot_be_cut(
    unanswered: Client, card: OneCard
) -> None:
    """Its own partition is there. Without that one the copy is all that it has."""
    (own,) = card.world.snapshot.partitions.values()
    copied(card, held=True, phase="Failed")
    cycle = card.world.cycle(unanswered)
    assert await tried(cycle) == []
    card.world.gone(PARTITIONS, own.to_json())
    assert await tried(cycle) == ["c"]
