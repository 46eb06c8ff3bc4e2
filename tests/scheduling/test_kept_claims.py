"""Claims that keep their devices between pods for a while (`apportion.dev/keep-for`)."""

import pytest

from apportion.api.contract import ALLOCATION_FINALIZER, GATE, KEEP_FOR
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.claim import Claim
from apportion.scheduling.writing.writer import Writer
from testbed.controlplane import ControlPlane
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import UNUSED_TIMEOUT, tried
from tests.scheduling.queued import fleet

KEPT = {KEEP_FOR: "10m"}


def kept(annotations: Json) -> ObservedCluster:
    """One device, allocated to a claim that no pod names any more, and a pod that waits for one."""
    world = fleet({"n1": ("h100", 1)})
    world.allocate(world.claim("kept", annotations=annotations), "n1", "gpu-0")
    world.wait_for("waiting", request("gpu"))
    return world


async def test_it_keeps_its_devices_for_as_long_as_it_says(unanswered: Client) -> None:
    """Longer or shorter than the policy's unusedTimeout; what it says in another form counts not at all."""
    for text, seconds in (("10m", 600.0), ("5s", 5.0), ("0s", 0.0)):
        world = kept({KEEP_FOR: text})
        cycle = world.cycle(unanswered)
        if seconds:
            assert await tried(cycle) == []
            world.clock.now += seconds - 1
            assert await tried(cycle) == []
            world.clock.now += 2
        assert await tried(cycle) == ["kept"]


@pytest.mark.parametrize("gates", [[GATE], []], ids=["behind the gate", "without a gate"])
async def test_a_deleted_one_that_the_next_pod_names_goes(unanswered: Client, gates: list[str]) -> None:
    """That pod waits for the claim's end, and controller-manager deallocates nothing without its own finalizer."""
    world = kept(KEPT)
    claim = world.seen[CLAIMS, "team", "kept"]
    gone = {"finalizers": [ALLOCATION_FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    claim["metadata"] |= gone
    world.see(CLAIMS, claim)
    pod = world.pod("next", "kept", gates=gates)
    assert await tried(world.cycle(unanswered)) == ["kept"]
    pod["spec"]["nodeName"] = "n1"
    world.see(PODS, pod)
    assert await tried(world.cycle(unanswered)) == []


async def test_nobody_else_gets_them_meanwhile(unanswered: Client) -> None:
    """The allocation stands, so the devices are held."""
    world = kept(KEPT)
    cycle = world.cycle(unanswered)
    world.clock.now += UNUSED_TIMEOUT + 1
    cycle.once()
    assert world.places() == {"kept": "n1"}
    assert ("waiting", "NotAllocated") in world.warned


async def test_the_time_begins_anew_with_each_pod(unanswered: Client) -> None:
    """A pod that names it uses it, whether it runs or waits."""
    world = kept(KEPT)
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += 599
    pod = world.pod("next", "kept", spec={"nodeName": "n1"})
    await tried(cycle)
    world.clock.now += 3600
    assert await tried(cycle) == []
    world.gone(PODS, pod)
    await tried(cycle)
    world.clock.now += 599
    assert await tried(cycle) == []
    world.clock.now += 2
    assert await tried(cycle) == ["kept"]


async def test_a_deleted_claim_keeps_nothing(unanswered: Client) -> None:
    """Nobody can use it any more."""
    world = kept(KEPT)
    raw = world.claim("kept", annotations=KEPT, deletionTimestamp="2026-01-01T00:00:00Z")
    world.allocate(raw, "n1", "gpu-0")
    assert await tried(world.cycle(unanswered)) == ["kept"]


async def test_a_pod_that_no_scheduler_takes_keeps_them_for_as_long_too(unanswered: Client) -> None:
    """Others wait, and the policy's time is over; the claim's own is not."""
    world = kept(KEPT)
    world.pod("stuck", "kept")
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.clock.now += UNUSED_TIMEOUT + 1
    assert await tried(cycle) == []
    world.clock.now += 600
    assert await tried(cycle) == ["kept"]


@pytest.mark.parametrize("text", ["ten minutes", "", "8d", "200h"])
async def test_a_time_that_cannot_be_read_is_refused(unanswered: Client, text: str) -> None:
    """An Event names the annotation; the claim is not served as if it said nothing."""
    world = fleet({"n1": ("h100", 1)})
    world.claim("c", request("gpu"), annotations={KEEP_FOR: text})
    world.pod("p", "c")
    world.cycle(unanswered).once()
    assert world.places() == {}
    found = [text for name, reason, text in world.messages if (name, reason) == ("c", "RefusedConfiguration")]
    assert all("metadata.annotations[apportion.dev/keep-for]" in each for each in found)
    assert found


async def test_it_carries_our_finalizer_and_not_the_one_by_which_others_deallocate(
    control_plane: ControlPlane, namespace: str, writer: Writer
) -> None:
    """controller-manager deallocates what carries its own when the last pod ends."""
    body = {
        "metadata": {"name": "c", "annotations": KEPT},
        "spec": {"devices": {"requests": [request("gpu")]}},
    }
    path = CLAIMS.path(namespace=namespace)
    made = Claim.from_json(await control_plane.api.create(path, body))
    await writer.protect(made)
    stored = await control_plane.api.get(f"{path}/c")
    assert stored["metadata"]["finalizers"] == [ALLOCATION_FINALIZER]
