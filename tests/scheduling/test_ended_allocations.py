"""An allocation that ended while a pod runs with its devices: a tenant took its claim away."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.device import DeviceId
from tests.observedcluster import GPU, ObservedCluster
from tests.scheduling.deallocated import used

Json = dict[str, Any]
CARD = DeviceId(GPU, "n1", "gpu-0")


def charged(world: ObservedCluster) -> bool:
    return bool(world.snapshot.state.holders(CARD))


def end(world: ObservedCluster, claim: Json, how: str) -> None:
    """Let a tenant take the finalizers off and delete the claim, or clear its status."""
    if how == "deleted":
        world.gone(CLAIMS, claim)
    else:
        world.see(CLAIMS, claim | {"status": {}})


@pytest.mark.parametrize("how", ["deleted", "cleared"])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "gone"])
def test_devices_stay_charged_until_the_pod_has_ended(how: str, phase: str) -> None:
    """The pod runs on whatever became of the claim; waiting demands are asked again when it ends."""
    world, claim, pod = used()
    end(world, claim, how)
    assert charged(world)
    world.see(PODS, pod | {"status": {"phase": "Running"}})
    assert charged(world)
    epoch = world.snapshot.retry_epoch
    if phase == "gone":
        world.gone(PODS, pod)
    else:
        world.see(PODS, pod | {"status": {"phase": phase}})
    assert not charged(world)
    assert world.snapshot.retry_epoch > epoch


@pytest.mark.parametrize("how", ["deleted", "cleared"])
def test_devices_of_a_pod_that_never_got_to_its_node_are_free_unless_it_gets_there(how: str) -> None:
    """kube-scheduler may be binding it at this very moment."""
    world, claim, pod = used()
    spec = pod["spec"]
    world.see(PODS, pod | {"spec": {**spec, "nodeName": ""}})
    end(world, claim, how)
    assert not charged(world)
    world.see(PODS, pod | {"spec": spec})
    assert charged(world)
    world.gone(PODS, pod)
    assert not charged(world)


@pytest.mark.parametrize("how", ["deleted", "cleared"])
def test_devices_of_a_pod_that_the_watch_of_pods_still_showed_behind_its_gate_are_charged(how: str) -> None:
    """That watch hangs for some seconds, in which the pod was bound; others had its devices for as long as it ran."""
    world, claim, pod = used()
    gated = {**pod["spec"], "nodeName": "", "schedulingGates": [{"name": GATE}]}
    world.see(PODS, pod | {"spec": gated})
    end(world, claim, how)
    assert not charged(world)
    world.see(PODS, pod)
    assert charged(world)
    world.gone(PODS, pod)
    assert not charged(world)


@pytest.mark.parametrize("how", ["deleted", "cleared"])
def test_devices_of_another_node_than_that_of_the_pod_are_free(how: str) -> None:
    """A scheduler bound it by a former allocation; its own node's devices are charged as any other's."""
    world, claim, pod = used()
    pod = world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n2"}})
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    end(world, claim, how)
    assert not charged(world)
    uid = "anew" if how == "deleted" else claim["metadata"]["uid"]
    claim = world.allocate(world.claim("c", uid=uid), "n2", "gpu-0", reservedFor=[consumer])
    end(world, claim, how)
    assert world.snapshot.state.holders(DeviceId(GPU, "n2", "gpu-0"))
    assert not charged(world)


@pytest.mark.parametrize("name", ["c", "anew"])
def test_devices_of_a_claim_that_was_made_anew_before_its_pod_was_bound_are_free(name: str) -> None:
    """The pod is bound by what the new claim has: under the same name, or under a new one, as controller-manager makes it."""
    world, claim, pod = used()
    spec = pod["spec"]
    pod = world.see(PODS, pod | {"spec": {**spec, "nodeName": ""}})
    end(world, claim, "deleted")
    spec = {**spec, "resourceClaims": [{"name": "c", "resourceClaimName": name}]}
    pod = world.see(PODS, pod | {"spec": {**spec, "nodeName": ""}})
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    anew = world.allocate(world.claim(name, uid="anew"), "n1", "gpu-1", reservedFor=[consumer])
    pod = world.see(PODS, pod | {"spec": spec})
    assert not charged(world)
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-1"))
    world.gone(CLAIMS, anew)
    assert not charged(world)
    world.gone(PODS, pod)
    assert not world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-1"))


@pytest.mark.parametrize("first", ["p", "q"])
def test_of_several_pods_without_a_node_all_get_what_the_claim_has_anew(first: str) -> None:
    """One of them may be over by then."""
    world, claim, pod = used()
    spec = pod["spec"]
    pod = world.see(PODS, pod | {"spec": {**spec, "nodeName": ""}})
    other = world.pod("q", "c")
    users = {"p": pod, "q": other}
    claim["status"]["reservedFor"] = [
        {"resource": "pods", "name": name, "uid": users[name]["metadata"]["uid"]}
        for name in (first, *users.keys() - {first})
    ]
    world.see(CLAIMS, claim)
    end(world, claim, "deleted")
    world.see(PODS, other | {"status": {"phase": "Failed"}})
    world.allocate(world.claim("c", uid="anew"), "n1", "gpu-1")
    world.see(PODS, pod | {"spec": spec})
    assert not charged(world)


def test_devices_of_a_claim_that_was_made_anew_under_a_running_pod_stay_charged() -> None:
    """The pod that was bound runs with the former ones, and somebody else uses the claim of that name."""
    world, claim, pod = used()
    end(world, claim, "deleted")
    other = world.pod("q", "c", spec={"nodeName": "n1"})
    consumer = {"resource": "pods", "name": "q", "uid": other["metadata"]["uid"]}
    world.allocate(world.claim("c", uid="anew"), "n1", "gpu-1", reservedFor=[consumer])
    assert charged(world)
    world.gone(PODS, other)
    assert charged(world)
    world.gone(PODS, pod)
    assert not charged(world)


@pytest.mark.parametrize("how", ["deleted", "cleared"])
def test_devices_that_a_claim_has_anew_with_its_running_pod_are_held_once(how: str) -> None:
    """Somebody has written back what was lost; a quota was charged for it twice."""
    world, claim, pod = used()
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    for reserved, holders in (([], 2), ([consumer], 1)):
        end(world, claim, how)
        uid = f"anew-{holders}" if how == "deleted" else claim["metadata"]["uid"]
        claim = world.claim("c", uid=uid)
        world.allocate(claim, "n1", "gpu-0", reservedFor=reserved)
        assert len(world.snapshot.state.holders(CARD)) == holders
    end(world, claim, how)
    assert charged(world)
    world.gone(PODS, pod)
    assert not charged(world)


def test_devices_that_a_claim_lost_and_others_that_it_got_in_one_event_are_both_charged() -> None:
    """A list after a broken watch shows the end of both changes only."""
    world, claim, pod = used()
    world.allocate(claim, "n1", "gpu-1")
    assert charged(world)
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-1"))
    world.gone(PODS, pod)
    assert not charged(world)


def test_a_claim_that_nobody_reserved_is_free_at_once() -> None:
    """No pod can run with it."""
    world, claim, _ = used()
    claim["status"]["reservedFor"] = []
    world.see(CLAIMS, claim)
    world.gone(CLAIMS, claim)
    assert not charged(world)


def test_of_several_pods_the_last_one_frees_the_devices() -> None:
    """A shared claim."""
    world, claim, pod = used()
    other = world.pod("q", "c", spec={"nodeName": "n1"})
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "q", "uid": other["metadata"]["uid"]})
    world.see(CLAIMS, claim)
    world.gone(CLAIMS, claim)
    world.gone(PODS, pod)
    assert charged(world)
    world.gone(PODS, other)
    assert not charged(world)


def test_devices_of_two_ended_allocations_of_a_claim_stay_charged() -> None:
    """A second pod was given other devices by the same claim, and the tenant took them away, too."""
    world, claim, pod = used()
    end(world, claim, "cleared")
    other = world.pod("q", "c", spec={"nodeName": "n1"})
    consumer = {"resource": "pods", "name": "q", "uid": other["metadata"]["uid"]}
    world.allocate(claim, "n1", "gpu-1", reservedFor=[consumer])
    end(world, claim, "cleared")
    second = DeviceId(GPU, "n1", "gpu-1")
    assert charged(world)
    assert world.snapshot.state.holders(second)
    world.gone(PODS, other)
    assert charged(world)
    world.gone(PODS, pod)
    assert not charged(world)
    assert not world.snapshot.state.holders(second)


def test_a_device_that_a_claim_had_and_later_looked_at_stays_charged() -> None:
    """Its second allocation has the first one's device with admin access, which holds nothing; the first pod runs on."""
    world, claim, pod = used()
    end(world, claim, "cleared")
    other = world.pod("q", "c", spec={"nodeName": "n1"})
    consumer = {"resource": "pods", "name": "q", "uid": other["metadata"]["uid"]}
    raw = world.allocate(claim, "n1", "gpu-1", "gpu-0", reservedFor=[consumer])
    raw["status"]["allocation"]["devices"]["results"][1]["adminAccess"] = True
    world.see(CLAIMS, raw)
    assert charged(world)
    end(world, claim, "cleared")
    assert charged(world)
    world.gone(PODS, pod)
    world.gone(PODS, other)
    assert not charged(world)


async def test_nobody_else_is_given_what_a_running_pod_uses(unanswered: Client) -> None:
    """The pod is told, once it is certain that its own end is not merely seen late."""
    world, claim, pod = used()
    world.node("n1")
    world.card("n1")
    world.gone(CLAIMS, claim)
    world.claim("next")
    world.pod("next", "next")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    assert ("p", "ClaimEnded") not in world.warned
    world.clock.now += 60
    cycle.once()
    assert ("p", "ClaimEnded") in world.warned
    world.see(PODS, pod | {"status": {"phase": "Succeeded"}})
    cycle.once()
    assert world.places() == {"next": "n1"}
