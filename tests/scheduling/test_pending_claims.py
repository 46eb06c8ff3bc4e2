"""Who waits, and since when, as Prometheus sees it."""

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from apportion.cluster.kinds import CLAIMS, PODS
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


def test_the_metrics_follow_claims_pods_and_classes() -> None:
    """Also where Prometheus asked before."""
    world = ObservedCluster()
    world.device_class("gpu")
    registry = CollectorRegistry()
    registry.register(PendingClaims(world.snapshot, lambda: datetime(2026, 1, 1, 0, 1, tzinfo=UTC)))

    def pending(device_class: str = "gpu") -> float | None:
        labels = {"namespace": "team", "device_class": device_class}
        return registry.get_sample_value("apportion_pending_claims", labels)

    assert pending() is None
    world.wait_for("a", request("gpu"))
    claim, other = world.claim("b"), world.claim("c", request("npu"))
    assert pending() == 1
    pods = [world.pod("b", "b"), world.pod("c", "c")]
    assert pending() == 2
    world.device_class("npu")
    assert pending("npu") == 1
    world.allocate(claim, "n1", "gpu-0")
    assert pending() == 1
    world.gone(PODS, pods[1])
    assert pending("npu") is None
    world.pod("d", "c")
    assert pending("npu") == 1
    world.gone(CLAIMS, other)
    assert pending("npu") is None
