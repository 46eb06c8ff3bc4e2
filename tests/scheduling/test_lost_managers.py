"""Allocated claims whose managedFields say no more who wrote the allocation: they were reset, or more than ten managers were merged."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.givenback import tried
from tests.scheduling.queued import fleet

MERGED: Json = {"manager": "ancient-changes", "fieldsV1": {"f:status": {"f:allocation": {}}}}


def allocated(fields: list[Json], **metadata: object) -> ObservedCluster:
    """Return the only device allocated to a claim."""
    world = fleet({"n1": ("h100", 1)})
    claim = world.allocate(world.claim("kept", **metadata), "n1", "gpu-0")
    claim["metadata"]["managedFields"] = fields
    world.see(CLAIMS, claim)
    return world


@pytest.mark.parametrize("fields", [[], [MERGED]], ids=["reset", "merged"])
async def test_a_deleted_claim_with_our_finalizer_gives_its_devices_back(
    unanswered: Client, fields: list[Json]
) -> None:
    """Nobody else takes the finalizer off: the claim would be in deletion for ever, and have its devices."""
    stamp = "2026-01-01T00:00:00Z"
    world = allocated(fields, annotations={GATE: "Immediate"}, deletionTimestamp=stamp)
    assert await tried(world.cycle(unanswered)) == ["kept"]


async def test_a_claim_without_our_finalizer_is_left_alone(unanswered: Client) -> None:
    """Whose allocation it is nobody knows: it is not cleared, and not said to be another allocator's."""
    world = allocated([MERGED])
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += 3600
    assert await tried(cycle) == []
    assert world.warned == []
