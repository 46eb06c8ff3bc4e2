"""Pods in series with one claim: the same partition, without a cut in between, and nobody else takes it meanwhile."""

from testbed.installation import Installation
from tests.e2e.series import NODE, ONE_CARD, keeps_its_partition
from tests.e2e.tenant import Tenant


async def test_a_claim_keeps_its_partition_between_pods_and_gives_it_to_others_after_its_time(
    installation: Installation, team: Tenant
) -> None:
    """One UUID for all three pods: handed over, never cut again."""
    await keeps_its_partition(installation, team, NODE, *ONE_CARD)
