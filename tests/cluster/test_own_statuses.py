"""Statuses that the operator writes into objects of its own kinds."""

from typing import Final

from apportion.cluster.kinds import POLICIES, QUOTAS
from tests.observedcluster import ObservedCluster
from tests.quota.tenants import quota

CONDITION: Final = {
    "type": "Resolved",
    "status": "True",
    "reason": "Found",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_a_status_of_a_policy_or_quota_is_no_news() -> None:
    """The operator writes them up to once a second: what depends on policies is not looked at anew each time."""
    world = ObservedCluster()
    world.device_class("gpu")
    policy, own_quota = world.policy(strategy="Pack"), quota(world, "q")
    managed, wakes, epoch = world.snapshot.managed, world.wakes, world.snapshot.retry_epoch
    for kind, raw in ((POLICIES, policy), (QUOTAS, own_quota)):
        world.see(kind, raw | {"status": {"conditions": [CONDITION]}})
        assert world.snapshot.managed is managed
        assert (world.wakes, world.snapshot.retry_epoch) == (wakes, epoch)
    world.policy(strategy="Spread")
    assert world.snapshot.managed is not managed
    assert world.snapshot.retry_epoch > epoch
    assert world.wakes > wakes
