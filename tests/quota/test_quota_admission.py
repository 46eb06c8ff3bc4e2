"""The limits of quotas in the cycle: what is beyond them waits, says why, and is not asked about before the quota changes."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS, QUOTAS
from tests.observedcluster import Json, request
from tests.quota.tenants import GPUS, cluster, leave, namespace, quota, said, wait


def first_available(*alternatives: tuple[str, int]) -> Json:
    """Return a request for the first that there is of these (class, count)."""
    return {
        "name": "device",
        "firstAvailable": [
            {"name": f"a{index}", "deviceClassName": device_class, "count": count}
            for index, (device_class, count) in enumerate(alternatives)
        ],
    }


async def test_a_limit_is_never_exceeded_and_what_is_beyond_it_says_so(silent: Client) -> None:
    """Three of five get a GPU; the Event names quota, resource, used, asked and limit. Others are served."""
    world = cluster(8, "a", "b")
    quota(world, "a", limit=3)
    for number in range(5):
        wait(world, "a", f"a{number}", at=number)
    wait(world, "b", "b0", count=4, at=9)
    world.cycle(silent).once()
    assert world.places().keys() == {"a0", "a1", "a2", "b0"}
    assert (
        said(world, "a4", "ExceedsLimit")[0] == "AcceleratorQuota a, resource gpus: used 3, asked 1, limit 3"
    )


async def test_what_waits_for_its_quota_is_served_when_the_use_falls(silent: Client) -> None:
    """One leaves, one comes."""
    world = cluster(8, "a")
    quota(world, "a", limit=1)
    wait(world, "a", "a0")
    wait(world, "a", "a1", at=1)
    cycle = world.cycle(silent)
    cycle.once()
    cycle.once()
    assert world.places().keys() == {"a0"}
    leave(world, "a", "a0")
    cycle.once()
    assert world.places().keys() == {"a1"}


async def test_what_waits_for_its_quota_is_served_when_the_limit_is_raised_or_the_quota_deleted(
    silent: Client,
) -> None:
    """Nothing else happens in the cluster."""
    world = cluster(8, "a")
    raw = quota(world, "a", limit=0)
    wait(world, "a", "a0")
    wait(world, "a", "a1", at=1)
    cycle = world.cycle(silent)
    cycle.once()
    assert world.places() == {}
    raw["spec"]["resources"][0]["limit"] = 1
    world.see(QUOTAS, raw)
    cycle.once()
    assert world.places().keys() == {"a0"}
    world.gone(QUOTAS, raw)
    cycle.once()
    assert world.places().keys() == {"a0", "a1"}


async def test_a_status_that_is_written_wakes_nobody(silent: Client) -> None:
    """Only the spec of a quota decides."""
    world = cluster(8, "a")
    raw = quota(world, "a", limit=0)
    epoch = world.snapshot.retry_epoch
    raw["status"] = {"pending": 3}
    world.see(QUOTAS, raw)
    assert world.snapshot.retry_epoch == epoch


async def test_namespaces_join_and_leave_a_quota_by_their_labels(silent: Client) -> None:
    """What they have is counted in the quota that they obey now."""
    world = cluster(8, "a", "b")
    quota(world, "a", limit=2)
    wait(world, "b", "b0", count=2)
    cycle = world.cycle(silent)
    cycle.once()
    namespace(world, "b", team="a")
    wait(world, "a", "a0", at=1)
    cycle.once()
    assert world.places().keys() == {"b0"}
    assert "used 2, asked 1, limit 2" in said(world, "a0", "ExceedsLimit")[0]
    namespace(world, "b")
    cycle.once()
    assert world.places().keys() == {"a0", "b0"}


async def test_a_pod_that_is_seen_before_its_namespace_waits_for_it(silent: Client) -> None:
    """The watches of pods and namespaces do not wait for each other; the quota may be full."""
    world = cluster(8)
    quota(world, "a", limit=0)
    wait(world, "a", "a0")
    cycle = world.cycle(silent)
    cycle.once()
    assert world.places() == {}
    assert world.messages == []
    namespace(world, "a", team="b")
    cycle.once()
    assert world.places().keys() == {"a0"}


async def test_an_alternative_beyond_the_limit_is_skipped_for_a_later_one(silent: Client) -> None:
    """Four GPUs are too many, two are not; the result names the alternative."""
    world = cluster(8, "a")
    quota(world, "a", limit=2)
    wait(world, "a", "a0", first_available(("gpu", 4), ("gpu", 2)))
    world.cycle(silent).once()
    claim = world.snapshot.claim("a", "a0")
    assert claim is not None
    allocation = world.snapshot.allocation(claim)
    assert allocation is not None
    assert [result.request for result in allocation.results] == ["device/a1"] * 2


async def test_smaller_devices_are_chosen_where_the_best_ones_are_beyond_the_limit(silent: Client) -> None:
    """Whatever the allocator would prefer: a limit of 50Gi leaves the GPU with 40Gi, and nothing for the next claim."""
    world = cluster(0, "a")
    for size in (80, 40):
        device = {"name": f"gpu-{size}", "capacity": {"memory": {"value": f"{size}Gi"}}}
        world.slice("n1", f"n1-{size}", {"devices": [device]}, 1, pool=f"pool-{size}")
    quota(world, "a", {"name": "memory", "capacity": "memory", "limit": "50Gi"})
    cycle = world.cycle(silent)
    for number in range(2):
        wait(world, "a", f"a{number}", at=number)
        cycle.once()
    claim = world.snapshot.claim("a", "a0")
    assert claim is not None
    allocation = world.snapshot.allocation(claim)
    assert allocation is not None
    assert [result.device.name for result in allocation.results] == ["gpu-40"]
    assert world.places().keys() == {"a0"}
    assert "used 40Gi, asked 80Gi, limit 50Gi" in said(world, "a1", "ExceedsLimit")[0]


async def test_a_refusal_tells_a_quota_that_would_allow_it_from_one_that_does_not(silent: Client) -> None:
    """Two cards of 8Gi pass a quota of 16Gi, but 10Gi do not fit on either (Volcano 5058)."""
    world = cluster(0, "a")
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"default": "8Gi"}}},
        }
        for number in range(2)
    ]
    world.slice("n1", "n1-shares", {"devices": devices}, 1, pool="shares")
    quota(world, "a", {"name": "memory", "capacity": "memory", "limit": "16Gi"})
    wait(world, "a", "fits-no-card", request("gpu", capacity={"requests": {"memory": "10Gi"}}))
    wait(world, "a", "exceeds", request("gpu", capacity={"requests": {"memory": "17Gi"}}), at=1)
    wait(world, "a", "fits", request("gpu", capacity={"requests": {"memory": "8Gi"}}), at=2)
    world.cycle(silent).once()
    assert world.places().keys() == {"fits"}
    assert said(world, "fits-no-card", "NotAllocated")[0].endswith("AcceleratorQuota a would allow it")
    assert not said(world, "fits-no-card", "ExceedsLimit")
    assert "asked 17Gi, limit 16Gi" in said(world, "exceeds", "ExceedsLimit")[0]


async def test_a_demand_within_its_guarantee_that_finds_no_devices_says_so(silent: Client) -> None:
    """Others hold them."""
    world = cluster(2, "a", "b")
    wait(world, "b", "b0", count=2)
    cycle = world.cycle(silent)
    cycle.once()
    quota(world, "a", guaranteed=1)
    wait(world, "a", "a0", at=1)
    cycle.once()
    assert said(world, "a0", "NotAllocated")[0].endswith(
        "AcceleratorQuota a guarantees it, and no node has free devices for it now; without a cohort there is nobody to take"
        " them back from"
    )


async def test_what_others_allocate_is_charged_too(silent: Client) -> None:
    """By hand, or by kube-scheduler past a keyless toleration; it may be beyond the limit."""
    world = cluster(8, "team")
    quota(world, "team", limit=2)
    world.allocate(world.claim("by-hand"), "n1", "gpu-0", "gpu-1", "gpu-2", by="kubectl")
    wait(world, "team", "more")
    world.cycle(silent).once()
    assert world.places().keys() == {"by-hand"}
    assert "used 3, asked 1, limit 2" in said(world, "more", "ExceedsLimit")[0]


async def test_devices_of_a_claim_that_was_deleted_under_its_pod_stay_charged(silent: Client) -> None:
    """To delete a claim in use is no way around a quota; the end of the pod is."""
    world = cluster(8, "team")
    quota(world, "team", limit=1)
    pod = world.pod("runs", "used", spec={"nodeName": "n1"})
    raw = world.allocate(
        world.claim("used"), "n1", "gpu-0",
        reservedFor=[{"resource": "pods", "name": "runs", "uid": pod["metadata"]["uid"]}],
    )  # fmt: skip
    cycle = world.cycle(silent)
    world.gone(CLAIMS, raw)
    wait(world, "team", "next", at=1)
    cycle.once()
    assert world.places() == {}
    pod["status"] = {"phase": "Succeeded"}
    world.see(PODS, pod)
    cycle.once()
    assert world.places().keys() == {"next"}


@pytest.mark.slow
async def test_pods_that_share_claims_get_devices_for_as_many_as_the_limit_leaves(silent: Client) -> None:
    """A shared claim is charged once, and each pod's own beside it: of three pods two are served."""
    world = cluster(8, "team")
    quota(world, "team", limit=3)
    world.claim("shared")
    for number in range(3):
        world.claim(f"own-{number}")
        world.pod(f"p{number}", "shared", f"own-{number}", spec={"containers": []})
    cycle = world.cycle(silent)
    cycle.once()
    cycle.once()
    places = world.places()
    assert "shared" in places
    assert len(places) == 3


async def test_thousands_that_wait_for_their_quota_ask_the_allocator_nothing(silent: Client) -> None:
    """Devices come and go elsewhere; the use of the quota stays the same."""
    world = cluster(8, "a", "b")
    quota(world, "a", limit=0)
    for number in range(200):
        wait(world, "a", f"a{number}", at=number)
    cycle = world.cycle(silent)
    cycle.once()
    before = len(world.messages)
    asked = world.snapshot.state.queries
    known = len(asked)
    for number in range(3):
        wait(world, "b", f"b{number}", count=2, at=300 + number)
        cycle.once()
        leave(world, "b", f"b{number}")
    assert len(world.messages) == before
    assert len(asked) - known <= 2


async def test_two_quotas_for_one_namespace_are_settled_by_age(silent: Client) -> None:
    """The older one counts; whichever is read first."""
    for names in (("old", "young"), ("young", "old")):
        world = cluster(8, "a", "b")
        for name in names:
            raw = quota(world, name, GPUS | {"limit": 1 if name == "old" else 5}, team="a")
            raw["metadata"]["creationTimestamp"] = f"202{5 if name == 'old' else 6}-01-01T00:00:00Z"
            world.see(QUOTAS, raw)
        for number in range(3):
            wait(world, "a", f"a{number}", at=number)
        wait(world, "b", "b0", at=9)
        world.cycle(silent).once()
        assert world.places().keys() == {"a0", "b0"}
        assert world.snapshot.quota_index.assignment.contested == {"a": ("old", "young")}


async def test_an_unreadable_quota_costs_nobody_else_devices(silent: Client) -> None:
    """What it said before counts on; another tenant's quota is not touched."""
    world = cluster(8, "a", "b")
    raw = quota(world, "a", limit=1)
    raw["spec"]["resources"][0]["limit"] = "much"
    world.see(QUOTAS, raw)
    for number in range(2):
        wait(world, "a", f"a{number}", at=number)
        wait(world, "b", f"b{number}", at=number)
    world.cycle(silent).once()
    assert world.places().keys() == {"a0", "b0", "b1"}
    assert said(world, "a", "Unreadable")[0].startswith("AcceleratorQuota a counts as far as it can be read")


@pytest.mark.parametrize(
    "newer",
    [
        {"status": {"resources": [{"name": "gpus", "used": "1", "reason": "OfANewerRelease"}]}},
        {"spec": {"cohort": "c", "reclaimWithinCohort": "OfANewerRelease"}},
        {"spec": {"resources": [{"name": "newer", "limit": 1}, GPUS | {"limit": 1}]}},
    ],
)
async def test_a_quota_that_was_never_readable_limits_as_far_as_it_can_be_read(
    silent: Client, newer: Json
) -> None:
    """As after a rollback: nothing else would limit its namespaces."""
    world = cluster(8, "a")
    spec = {"namespaceSelector": {"matchLabels": {"team": "a"}}, "resources": [GPUS | {"limit": 1}]}
    read = {"metadata": {"name": "b"}, "spec": spec | newer.get("spec", {})}
    world.see(QUOTAS, read | {"status": newer.get("status", {})})
    for number in range(2):
        wait(world, "a", f"a{number}", at=number)
    world.cycle(silent).once()
    assert world.places().keys() == {"a0"}
    assert said(world, "b", "Unreadable")[0].startswith("AcceleratorQuota b counts as far as it can be read")
