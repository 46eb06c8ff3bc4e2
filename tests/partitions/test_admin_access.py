"""Claims that look at partitions beside those who have them (admin access)."""

import pytest

from apportion.api.partition import Phase
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PARTITIONS
from tests.partitions.manycards import controller, many
from tests.partitions.onecard import FIRST


@pytest.mark.parametrize("phase", [Phase.READY, Phase.PENDING, Phase.FAILED])
async def test_a_claim_with_admin_access_waits_for_the_cut_and_not_for_the_holder(
    unanswered: Client, phase: Phase
) -> None:
    """The partition never becomes its own, and its agent does not ask for that: the pod waited behind its gate for ever."""
    world = many(1)
    raw = world.allocate(world.claim("watcher"), "n0", FIRST)
    raw["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    world.see(CLAIMS, raw)
    world.see(PARTITIONS, world.seen[PARTITIONS, "", f"n0-{FIRST}"] | {"status": {"phase": str(phase)}})
    watching = controller(world, unanswered)
    assert watching.phase(world.claim_value(raw)) == phase
    (holder,) = {each.spec.holder for each in world.snapshot.partitions.values()}
    assert holder is not None
    assert holder.name == "c0"
