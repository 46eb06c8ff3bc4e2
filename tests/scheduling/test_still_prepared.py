"""Where a claim may still be prepared although it has lost its devices."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.api.contract import HELD
from apportion.cluster.client import Client
from apportion.cluster.cutoffclaims import PATIENCE
from apportion.cluster.kinds import CLAIMS, PARTITIONS, PODS, SLICES, ResourceKind
from apportion.scheduling.candidates.stillprepared import StillPrepared
from tests.clock import Clock
from tests.observedcluster import ObservedCluster
from tests.scheduling.deallocated import deallocated, noted, used
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import consumer

CLAIM = "uid-team-resourceclaims-c"


def test_a_claim_whose_pod_was_deleted_by_force_avoids_the_node_until_its_agent_had_time_to_tell() -> None:
    """The API forgot the pod; its containers may run on."""
    world, claim, pod = used()
    world.gone(PODS, pod)
    claim["status"] = {}
    world.see(CLAIMS, claim)
    clock = Clock()
    still_prepared = noted(world, clock)
    assert still_prepared.nodes(CLAIM) == {"n1"}
    assert still_prepared.nodes("another") == frozenset()
    before = still_prepared.epoch()
    clock.now += PATIENCE
    assert still_prepared.epoch() != before, "who was refused is asked again"
    assert still_prepared.nodes(CLAIM) == frozenset()


def test_a_claim_that_a_short_pod_used_elsewhere_meanwhile_avoids_the_node_all_the_same() -> None:
    """The first node's agent had no time yet; the next pod would start with the former devices there."""
    world, claim, pod = used()
    world.gone(PODS, pod)
    claim["status"] = {}
    world.see(CLAIMS, claim)
    short = world.pod("short", "c", spec={"nodeName": "n2"})
    world.allocate(claim, "n2", "gpu-0", reservedFor=[consumer(short)])
    world.see(PODS, short | {"status": {"phase": "Succeeded"}})
    claim["status"] = {}
    world.see(CLAIMS, claim)
    clock = Clock()
    still_prepared = noted(world, clock)
    assert still_prepared.nodes(CLAIM) == {"n1"}
    clock.now += PATIENCE
    assert still_prepared.nodes(CLAIM) == frozenset()


def second_user(
    world: ObservedCluster, claim: dict[str, Any], reserved: list[dict[str, Any]]
) -> dict[str, Any]:
    """Another pod that uses the claim on its node, and is the last to have reserved it beside these; returns its pod."""
    second = world.pod("q", "c", spec={"nodeName": "n1"})
    claim["status"]["reservedFor"] = [*reserved, consumer(second)]
    world.see(CLAIMS, claim)
    return second


@pytest.mark.parametrize("first", [PODS, CLAIMS])
def test_a_claim_that_a_second_pod_used_last_avoids_the_node_of_the_first_that_was_deleted_by_force(
    first: ResourceKind,
) -> None:
    """controller-manager takes the reservation of the first, and the devices when the second has ended."""
    world, claim, pod = used()
    second = second_user(world, claim, claim["status"]["reservedFor"])
    if first == PODS:
        world.gone(PODS, pod)
    claim["status"]["reservedFor"] = [consumer(second)]
    world.see(CLAIMS, claim)
    if first == CLAIMS:
        world.gone(PODS, pod)
    world.see(PODS, second | {"status": {"phase": "Succeeded"}})
    assert deallocated(world, claim).nodes(CLAIM) == {"n1"}


def test_a_claim_whose_devices_outlast_its_reservation_avoids_the_node_of_a_pod_deleted_by_force() -> None:
    """Devices are kept for a while (`keep-for`), and nobody has reserved the claim when it loses them."""
    world, claim, pod = used()
    world.gone(PODS, pod)
    claim["status"]["reservedFor"] = []
    world.see(CLAIMS, claim)
    assert deallocated(world, claim).nodes(CLAIM) == {"n1"}


def test_a_pod_that_used_the_claim_before_and_has_ended_is_no_obstacle() -> None:
    """It was done when controller-manager took its reservation; or it had another allocation of the claim."""
    world, claim, pod = used()
    second = second_user(world, claim, claim["status"]["reservedFor"])
    world.see(PODS, pod | {"status": {"phase": "Succeeded"}})
    claim["status"]["reservedFor"] = [consumer(second)]
    world.see(CLAIMS, claim)
    world.gone(PODS, pod)
    world.see(PODS, second | {"status": {"phase": "Succeeded"}})
    assert deallocated(world, claim).nodes(CLAIM) == frozenset()


def test_a_pod_that_used_a_former_allocation_of_the_claim_says_nothing_of_the_next_one() -> None:
    """Its node is avoided, not that of the next allocation, whose pod has ended."""
    world, claim, pod = used()
    world.gone(PODS, pod)
    claim["status"]["reservedFor"] = []
    world.see(CLAIMS, claim)
    deallocated(world, claim)
    short = world.pod("short", "c", spec={"nodeName": "n2"})
    world.allocate(claim, "n2", "gpu-0", reservedFor=[consumer(short)])
    world.see(PODS, short | {"status": {"phase": "Succeeded"}})
    assert deallocated(world, claim).nodes(CLAIM) == frozenset()


def test_a_pod_that_has_ended_is_no_obstacle_even_if_that_is_seen_late() -> None:
    """Kubelet unprepares before it says so; pods and claims come by two watches."""
    world, claim, pod = used()
    still_prepared = deallocated(world, claim)
    assert still_prepared.nodes(CLAIM) == {"n1"}, "as far as anybody knows, it runs"
    world.see(PODS, pod | {"status": {"phase": "Succeeded"}})
    assert still_prepared.nodes(CLAIM) == frozenset()
    world.gone(PODS, pod)
    assert still_prepared.nodes(CLAIM) == frozenset()


def test_a_pod_that_never_got_to_a_node_is_no_obstacle() -> None:
    """The scheduler takes allocations back from pods that it cannot place."""
    world, claim, pod = used()
    world.see(PODS, pod | {"spec": {**pod["spec"], "nodeName": ""}})
    assert deallocated(world, claim).nodes(CLAIM) == frozenset()


def test_what_an_agent_says_counts_as_long_as_it_says_so() -> None:
    """Also for an operator that has just started: a taint names the claim, or a Partition does."""
    world = ObservedCluster()
    taint = {"key": HELD, "value": CLAIM, "effect": "NoSchedule"}
    world.slice("n1", "s", {"devices": [{"name": "gpu-0", "taints": [taint]}]}, 1)
    spec = {"nodeName": "n2", "driver": "gpu.apportion.dev", "pool": "n2", "device": "d", "parent": "gpu-0"}
    spec |= {"profile": "1g.10gb", "origin": "Claim"}
    partition = {"metadata": {"name": "n2-d"}, "spec": spec, "status": {"preparedBy": [CLAIM]}}
    world.see(PARTITIONS, partition)
    still_prepared = StillPrepared(world.snapshot, Clock())
    assert still_prepared.nodes(CLAIM) == {"n1", "n2"}
    world.slice("n1", "s", {"devices": [{"name": "gpu-0"}]}, 1)
    assert still_prepared.nodes(CLAIM) == {"n2"}
    world.see(PARTITIONS, partition | {"status": {}})
    assert still_prepared.nodes(CLAIM) == frozenset()


def test_claims_that_a_device_has_no_taint_for_are_prepared_too() -> None:
    """An annotation of its slice names them, beside those that its taints name."""
    world = ObservedCluster()
    taint = {"key": HELD, "value": "tainted", "effect": "None"}
    devices = {"devices": [{"name": "gpu-0", "taints": [taint]}, {"name": "gpu-1"}]}
    published = world.slice("n1", "s", devices, 1)
    claims = ("tainted", "u-1", "u-2")
    still_prepared = StillPrepared(world.snapshot, Clock())
    for text, named in (
        ("gpu-0/u-1 gpu-1/u-2", {*claims}),
        ("gpu-0/u-1", {"tainted", "u-1"}),
        ("what is this / /", {"tainted"}),
    ):
        published["metadata"]["annotations"] = {HELD: text}
        world.see(SLICES, published)
        assert {claim for claim in claims if still_prepared.nodes(claim)} == named
    world.gone(SLICES, published)
    assert not any(map(still_prepared.nodes, claims))


def test_a_loss_that_nobody_asks_about_is_forgotten() -> None:
    """Claims of templates go with their pods; an operator that lives for months must not remember each."""
    world, claim, _ = used()
    claim["status"] = {}
    world.see(CLAIMS, claim)
    clock = Clock()
    still_prepared = StillPrepared(world.snapshot, clock)
    event = world.snapshot.deallocations.popleft()
    for number in range(5):
        clock.now += PATIENCE
        still_prepared.note(replace(event, claim=replace(event.claim, uid=f"claim-{number}")))
        assert len(still_prepared) == 1


@pytest.mark.parametrize("seen", ["both", "the end"])
@pytest.mark.parametrize("first", [PODS, CLAIMS])
async def test_a_claim_made_anew_under_the_name_of_one_whose_pod_was_deleted_by_force_avoids_the_node(
    unanswered: Client, first: ResourceKind, seen: str
) -> None:
    """`kubectl replace --force`. kubelet prepares no claim as long as it has a former one of its name, also where devices are free.

    A watch that was broken meanwhile shows that the claim is gone, and not that it has lost its devices before.
    """
    world = fleet({"n1": ("h100", 2)})
    pod = world.pod("p", "c", spec={"nodeName": "n1"})
    claim = world.allocate(world.claim("c"), "n1", "gpu-0", reservedFor=[consumer(pod)])
    uid = claim["metadata"]["uid"]
    if first is PODS:
        world.gone(PODS, pod)
    if seen == "both":
        claim["status"] = {}
        world.see(CLAIMS, claim)
    world.gone(CLAIMS, claim)
    if first is CLAIMS:
        world.gone(PODS, pod)
    world.claim("c", uid="anew")
    world.pod("again", "c")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}, "its agent had no time to tell yet"

    held = {"name": "gpu-0", "taints": [{"key": HELD, "value": uid, "effect": "NoSchedule"}]}
    world.slice("n1", "n1-devices", {"devices": [held, {"name": "gpu-1"}]}, 1)
    world.clock.now += PATIENCE
    cycle.once()
    assert world.places() == {}

    world.slice("n1", "n1-devices", {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}, 1)
    cycle.once()
    assert world.places() == {"c": "n1"}


async def test_a_claim_that_somebody_deletes_under_a_pod_without_a_gate_refuses_that_one_no_node(
    unanswered: Client,
) -> None:
    """kube-scheduler takes devices from a pod that it cannot place on their node, and deletes no claim."""
    world = fleet({"n1": ("h100", 1)})
    claim = world.allocate(world.claim("c"), "n1", "gpu-0")
    world.pod("p", "c")
    world.gone(CLAIMS, claim)
    world.claim("c", uid="anew")
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n1"}
