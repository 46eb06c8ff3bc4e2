"""Who waits, and since when, as Prometheus sees it."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from apportion.scheduling.pendingclaims import PendingClaims
from tests.observedcluster import ObservedCluster, request


def test_claims_that_wait_are_counted_by_namespace_and_class() -> None:
    """An allocated claim, one that no pod names and one of another's class do not wait for us."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.device_class("npu")
    world.device_class("others", team="x")
    for name, device_class in (("a", "gpu"), ("b", "gpu"), ("c", "npu"), ("d", "others")):
        world.wait_for(name, request(device_class))
    world.claim("unused")
    world.allocate(world.claim("b"), "n1", "gpu-0")
    registry = CollectorRegistry()
    registry.register(PendingClaims(world.snapshot, lambda: datetime(2026, 1, 1, 0, 1, tzinfo=UTC)))

    def value(metric: str, **labels: str) -> float | None:
        return registry.get_sample_value(metric, labels)

    assert value("apportion_pending_claims", namespace="team", device_class="gpu") == 1
    assert value("apportion_pending_claims", namespace="team", device_class="npu") == 1
    assert value("apportion_pending_claims", namespace="team", device_class="others") is None
    assert value("apportion_oldest_pending_claim_seconds", namespace="team") == 60
