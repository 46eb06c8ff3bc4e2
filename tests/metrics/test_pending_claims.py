"""Who waits, since when and why, as Prometheus sees it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.gauges import described
from apportion.gauges.described import MOST_NAMESPACES, OTHERS
from apportion.gauges.pendingclaims import PendingClaims
from apportion.scheduling.events.events import about_claim, about_pod
from tests.metrics.gaugesof import read
from tests.observedcluster import ObservedCluster, request


def pending_claims(world: ObservedCluster, reasons: Mapping[str, str] | None = None) -> PendingClaims:
    """Return the gauges a minute after the claims were made; `reasons` are those of the last Events, by UID."""
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    return PendingClaims(world.snapshot, (reasons or {}).get, lambda: now)


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
    values = read(pending_claims(world))
    assert values(described.PENDING_CLAIMS) == {("team", "gpu"): 1, ("team", "npu"): 1}
    assert values(described.OLDEST_PENDING) == {("team",): 60}


def test_the_metrics_follow_claims_pods_and_classes() -> None:
    """Also where Prometheus asked before."""
    world = ObservedCluster()
    world.device_class("gpu")
    found = pending_claims(world)

    def pending(device_class: str = "gpu") -> float | None:
        return read(found)(described.PENDING_CLAIMS).get(("team", device_class))

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


async def test_claims_are_counted_by_the_reason_of_their_last_event_or_of_their_pods(silent: Client) -> None:
    """A class that nobody made makes no series of its own; what nobody looked at yet is Undecided; what is served has no reason."""
    world = ObservedCluster()
    world.device_class("gpu")
    recorder = world.recorder(silent)
    found = PendingClaims(world.snapshot, recorder.reason, lambda: datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
    names = {
        "refused": request("gpu"),
        "typo": request("gqu"),
        "grouped": request("gpu"),
        "new": request("gpu"),
    }
    for name, wanted in names.items():
        world.wait_for(name, wanted)
    assert read(found)(described.QUEUE) == {("Undecided",): 4}
    claims = {each.name: about_claim(each) for each in world.snapshot.claims.values()}
    [pod] = [each for each in world.snapshot.pods.values() if each.name == "grouped"]
    recorder.warning(claims["refused"], "Reserved", "text")
    recorder.warning(claims["refused"], "NotAllocated", "text")
    recorder.warning(claims["typo"], "UnknownClass", "text")
    recorder.warning(about_pod(pod), "GroupIncomplete", "text")
    values = read(found)
    assert values(described.QUEUE) == {
        ("GroupIncomplete",): 1,
        ("NotAllocated",): 1,
        ("Undecided",): 1,
        ("UnknownClass",): 1,
    }
    assert values(described.QUEUE_OLDEST)["UnknownClass",] == 60
    assert values(described.PENDING_CLAIMS) == {("team", "gpu"): 3}
    recorder.withdraw(claims["refused"])
    assert read(found)(described.QUEUE)["Undecided",] == 2
    recorder.normal(claims["refused"], "Allocated", "text")
    assert read(found)(described.QUEUE)["Undecided",] == 2
    assert ("NotAllocated",) not in read(found)(described.QUEUE)


def test_namespaces_beyond_the_bound_are_counted_together() -> None:
    """Those where most claims wait keep series of their own."""
    world = ObservedCluster()
    world.device_class("gpu")
    for number in range(MOST_NAMESPACES + 3):
        for name in ("a", "b") if number == MOST_NAMESPACES else ("a",):
            world.claim(name, request("gpu"), namespace=f"team-{number}")
            world.pod(name, name, namespace=f"team-{number}")
    values = read(pending_claims(world))(described.PENDING_CLAIMS)
    assert len(values) == MOST_NAMESPACES + 1
    assert values[OTHERS, "gpu"] == 3
    assert values[f"team-{MOST_NAMESPACES}", "gpu"] == 2


def test_what_waits_for_others_does_not_wait_for_us() -> None:
    """No Event will ever be about it, so that it would be Undecided until somebody is called: a pod behind a gate of Kueue, one that has ended, a claim that is being deleted."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.claim("gated")
    gated = world.pod("gated", "gated", gates=[GATE, "kueue.x-k8s.io/admission"])
    world.claim("ended")
    world.see(PODS, world.pod("ended", "ended") | {"status": {"phase": "Succeeded"}})
    world.claim("deleted", deletionTimestamp="2026-01-01T00:00:10Z", finalizers=["a/b"])
    world.pod("deleted", "deleted")
    found = pending_claims(world)
    assert read(found)(described.QUEUE) == {}
    world.see(PODS, gated | {"spec": gated["spec"] | {"schedulingGates": [{"name": GATE}]}})
    assert read(found)(described.QUEUE) == {("Undecided",): 1}


def test_a_claim_waits_since_it_has_a_pod_and_no_devices() -> None:
    """It was made a month ago: the alert about claims that nobody decides came at once."""
    world = ObservedCluster()
    world.device_class("gpu")
    month = "2025-12-01T00:00:00Z"
    had = world.claim("had", creationTimestamp=month)
    world.allocate(had, "n1", "gpu-0")
    world.claim("kept", creationTimestamp=month)
    for name in ("had", "kept"):
        raw = world.pod(name, name)
        raw["metadata"]["creationTimestamp"] = "2026-01-01T00:00:30Z"
        world.see(PODS, raw)
    now = [datetime(2026, 1, 1, 0, 1, tzinfo=UTC)]
    found = PendingClaims(world.snapshot, lambda _: None, lambda: now[0])

    def oldest() -> Mapping[tuple[str, ...], float]:
        return read(found)(described.QUEUE_OLDEST)

    assert oldest() == {("Undecided",): 30}
    world.gone_claim("kept")
    now[0] += timedelta(hours=1)
    assert oldest() == {}
    world.see(CLAIMS, {key: value for key, value in had.items() if key != "status"})
    now[0] += timedelta(minutes=1)
    assert oldest() == {("Undecided",): 60}
    world.device_class("npu")
    now[0] += timedelta(minutes=1)
    assert oldest() == {("Undecided",): 120}
