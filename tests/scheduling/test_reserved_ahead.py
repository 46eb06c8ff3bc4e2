"""A claim is reserved for its pod together with its allocation; what is decided by such a reservation, and what is not (ADR 23)."""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.device import DeviceId
from apportion.scheduling.clearing.clearing import Overlaps
from apportion.scheduling.demands.consumers import is_taken_up, user_ahead
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.deallocated import deallocated
from tests.scheduling.givenback import UNUSED_TIMEOUT, tried
from tests.scheduling.openedgates import opened
from tests.scheduling.overlapping import EARLY, LATE
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import (
    consumer,
    deallocate,
    owner,
    pod_and_claim,
    reserved_ahead,
    value,
)

Json = dict[str, Any]


def ahead(world: ObservedCluster, *pods: Json, claim: Json) -> str | None:
    """Return the name of the pod for which the claim is reserved with its allocation."""
    pod = user_ahead(world.claim_value(claim), [value(world, each) for each in pods], world.snapshot)
    return pod.name if pod is not None else None


def test_a_claim_of_one_gated_pod_is_reserved_with_its_allocation() -> None:
    """kube-scheduler need not write it then."""
    world = ObservedCluster()
    pod, claim = pod_and_claim(world)
    assert ahead(world, pod, claim=claim) == "p"


def _bound(world: ObservedCluster, pod: Json) -> None:
    world.see(PODS, pod | {"spec": pod["spec"] | {"schedulingGates": [], "nodeName": "n1"}})


def _ungated(world: ObservedCluster, pod: Json) -> None:
    world.see(PODS, pod | {"spec": pod["spec"] | {"schedulingGates": []}})


def _held_by_others(world: ObservedCluster, pod: Json) -> None:
    world.see(PODS, pod | {"spec": pod["spec"] | {"schedulingGates": [{"name": GATE}, {"name": "x/y"}]}})


def _deleting(world: ObservedCluster, pod: Json) -> None:
    world.see(PODS, pod | {"metadata": pod["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})


def _gone(world: ObservedCluster, pod: Json) -> None:
    world.gone(PODS, pod)


def _in_a_group(world: ObservedCluster, pod: Json) -> None:
    world.see(PODS, pod | {"metadata": pod["metadata"] | {"labels": {"apportion.dev/pod-group": "g"}}})


def _shared(world: ObservedCluster, pod: Json) -> None:
    world.pod("other", pod["metadata"]["name"], gates=[GATE])


def _replaced(world: ObservedCluster, pod: Json) -> None:
    world.gone(PODS, pod)
    world.see(PODS, pod | {"metadata": pod["metadata"] | {"uid": "another"}})


@pytest.mark.parametrize(
    "change",
    [_bound, _ungated, _held_by_others, _deleting, _gone, _in_a_group, _shared, _replaced],
)
def test_kube_scheduler_reserves_all_other_claims(change: Callable[[ObservedCluster, Json], None]) -> None:
    """Whatever became of the pod between the decision and the write."""
    world = ObservedCluster()
    pod, claim = pod_and_claim(world)
    decided = [value(world, pod)]
    change(world, pod)
    assert user_ahead(world.claim_value(claim), decided, world.snapshot) is None


def test_a_claim_that_no_template_made_is_not_reserved_ahead() -> None:
    """Another pod may name it at any time, and would lose the devices with the first one."""
    world = ObservedCluster()
    pod = world.pod("p", "c", gates=[GATE])
    assert ahead(world, pod, claim=world.claim("c")) is None


def test_a_pod_has_taken_its_devices_up_once_it_has_no_gate() -> None:
    """The API server binds no gated pod; every other consumer may have started."""
    world = ObservedCluster()
    pod, claim = reserved_ahead(world)
    assert not is_taken_up(world.claim_value(claim), world.snapshot)
    _ungated(world, pod)
    assert is_taken_up(world.claim_value(claim), world.snapshot)
    _gone(world, pod)
    assert is_taken_up(world.claim_value(claim), world.snapshot)
    foreign = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": pod["metadata"]["uid"]}
    world.see(PODS, pod)
    claim["status"]["reservedFor"] = [consumer(pod), foreign | {"uid": "other"}]
    world.see(CLAIMS, claim)
    assert is_taken_up(world.claim_value(claim), world.snapshot)


def test_the_gate_goes_when_the_watch_shows_the_reserved_allocation() -> None:
    """The reservation says nothing about the pod."""
    world = ObservedCluster()
    world.device_class("gpu")
    reserved_ahead(world)
    assert [pod.name for pod in opened(Gates(world.snapshot))] == ["p"]


def test_of_two_allocations_that_are_reserved_ahead_the_later_one_yields() -> None:
    """Neither pod can have started: nothing is stuck."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    reserved_ahead(world, "early", timestamp=EARLY)
    reserved_ahead(world, "late", timestamp=LATE)
    (found,) = Overlaps(world.snapshot).find()
    assert found.untaken
    assert found.untaken[-1].name == "late"


def test_a_gated_pod_yields_to_one_that_may_have_started() -> None:
    """Even where its allocation is the older one."""
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    reserved_ahead(world, "early", timestamp=EARLY)
    reserved_ahead(world, "late", timestamp=LATE, gates=())
    (found,) = Overlaps(world.snapshot).find()
    assert found.untaken
    assert found.untaken[-1].name == "early"


async def test_a_stalled_pod_loses_its_reservation_before_its_devices(unanswered: Client) -> None:
    """kube-scheduler has to reserve the claim from then on, so that the devices cannot be taken from a pod that it binds."""
    world = fleet({"n1": ("h100", 1)})
    _, claim = reserved_ahead(world, "kept", gates=())
    world.wait_for("waiting", request("gpu"))
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == ["kept"]

    claim["status"]["reservedFor"] = []
    world.see(CLAIMS, claim)
    assert await tried(cycle) == []
    world.clock.now += UNUSED_TIMEOUT - 1
    assert await tried(cycle) == []
    world.clock.now += 2
    assert await tried(cycle) == ["kept"]


async def test_a_bound_pod_keeps_what_was_reserved_for_it_ahead(unanswered: Client) -> None:
    """Nobody wrote to the claim when it was bound; the pod says it."""
    world = fleet({"n1": ("h100", 1)})
    pod, _ = reserved_ahead(world, "kept", gates=())
    world.wait_for("waiting", request("gpu"))
    cycle = world.cycle(unanswered)
    await tried(cycle)
    _bound(world, pod)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == []


@pytest.mark.parametrize("gates", [(), (GATE,)])
async def test_a_claim_that_is_being_deleted_gives_its_devices_back(
    unanswered: Client, gates: tuple[str, ...]
) -> None:
    """kube-scheduler takes no pod whose claim is being deleted, and controller-manager waits for the reservation to go."""
    world = fleet({"n1": ("h100", 1)})
    _, claim = reserved_ahead(world, "kept", gates=gates)
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.see(CLAIMS, claim)
    assert await tried(cycle) == ["kept"]


async def test_what_kube_scheduler_took_back_is_not_kept_for_the_pod(unanswered: Client) -> None:
    """The pod is bound by the next allocation; its former devices go to others."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    pod, claim = reserved_ahead(world, gates=())
    deallocate(world, claim)
    world.cycle(unanswered).once()
    assert world.places() == {"p": "n2"}, "the node is left out"

    # The watch of pods may be ahead of that of claims.
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n2"}})
    world.allocate(claim, "n2", "gpu-0", reservedFor=[consumer(pod)])
    assert not world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0"))
    assert list(world.snapshot.ended) == []


async def test_a_gated_pod_was_refused_no_node(unanswered: Client) -> None:
    """A tenant cleared the claim's status, or the pod is about to go: kube-scheduler did not look at it."""
    world = fleet({"n1": ("h100", 1)})
    pod, claim = reserved_ahead(world)
    deallocate(world, claim)
    assert list(world.snapshot.ended) == []
    world.cycle(unanswered).once()
    assert world.places() == {"p": "n1"}
    assert world.snapshot.ended.of_pod(pod["metadata"]["uid"]) == []


def test_a_pod_that_runs_elsewhere_keeps_no_node_shut() -> None:
    """kube-scheduler took the former node's devices back before it bound the pod."""
    world = ObservedCluster()
    world.device_class("gpu")
    pod, claim = reserved_ahead(world, gates=())
    still_prepared = deallocated(world, claim)
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n2"}})
    assert still_prepared.nodes(claim["metadata"]["uid"]) == frozenset()
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n1"}})
    assert still_prepared.nodes(claim["metadata"]["uid"]) == {"n1"}


def test_the_owner_of_a_claim_is_its_pod() -> None:
    """The helpers make what controller-manager makes."""
    world = ObservedCluster()
    pod, claim = pod_and_claim(world)
    assert claim["metadata"]["ownerReferences"] == [owner(pod)]
    assert world.claim_value(claim).owner_pod == value(world, pod).uid


@pytest.mark.parametrize("reserved", [True, False])
async def test_what_is_allocated_on_another_node_than_that_of_the_pod_is_given_back(
    unanswered: Client, *, reserved: bool
) -> None:
    """A scheduler bound it by a former allocation: its claim is allocated where it is, at once."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    pod, claim = reserved_ahead(world, gates=())
    claim["status"]["reservedFor"] = [consumer(pod)] if reserved else []
    world.see(CLAIMS, claim)
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n2"}})
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == ["p"]
    world.snapshot.clearing(claim["metadata"]["uid"])
    deallocate(world, claim)
    cycle.once()
    assert world.places() == {"p": "n2"}
    world.wait_for("next", request("gpu"))
    cycle.once()
    assert world.places() == {"p": "n2", "next": "n1"}, "the pod cannot run with what it never could have"


async def test_what_a_pod_has_on_its_own_node_is_kept(unanswered: Client) -> None:
    """Neither once it has ended: controller-manager takes it then."""
    world = fleet({"n1": ("h100", 1)})
    pod, _ = reserved_ahead(world, gates=())
    bound = pod | {"spec": pod["spec"] | {"nodeName": "n1"}}
    world.see(PODS, bound)
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    world.see(PODS, bound | {"spec": bound["spec"] | {"nodeName": "n2"}, "status": {"phase": "Succeeded"}})
    assert await tried(cycle) == []


async def test_what_ties_a_gated_pod_to_a_node_that_cannot_serve_the_rest_is_given_back(
    unanswered: Client,
) -> None:
    """The write of its other allocation was refused, and the devices went to others meanwhile."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 2)})
    pod = world.pod("p", "first", "second", gates=[GATE])
    first = world.claim("first", ownerReferences=[owner(pod)])
    world.allocate(first, "n1", "gpu-0", reservedFor=[consumer(pod)])
    world.claim("second", ownerReferences=[owner(pod)])
    assert await tried(world.cycle(unanswered)) == ["first"]
