"""Claims of a class that selects our guarded devices and that nobody manages: an Event says so."""

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster, request

GUARD = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
PATIENCE = 5.0


def world(*taints: dict[str, str]) -> ObservedCluster:
    """One node with one device, class `gpu` of ours, and `own` of a user, which selects the same devices."""
    made = ObservedCluster()
    made.node("n1")
    made.device_class("gpu")
    made.device_class("own", 'device.driver == "gpu.apportion.dev"', unmanaged="yes")
    made.slice("n1", "s", {"devices": [{"name": "gpu-0", "taints": [*taints]}]}, 1)
    return made


async def test_a_class_that_selects_guarded_devices_and_is_not_managed_is_named(unanswered: Client) -> None:
    """Not before kube-scheduler had its time; on claim and pod, once, whatever the claim's own selectors say."""
    made = world(GUARD)
    made.wait_for("c", request("own", expression="device.attributes['x'].never == 1"))
    cycle = made.cycle(unanswered)
    cycle.once()
    assert made.warned == []
    made.clock.now += PATIENCE
    cycle.once()
    made.clock.now += PATIENCE
    cycle.once()
    assert made.warned == [("c", "UnmanagedClass"), ("c", "UnmanagedClass")]
    assert "DeviceClass own selects devices that apportion guards" in made.messages[0][2]


async def test_nothing_is_said_of_a_class_that_kube_scheduler_can_serve(unanswered: Client) -> None:
    """Other drivers' devices carry no guard; another taint is somebody else's."""
    for taints in ((), ({"key": "other", "effect": "NoSchedule"},)):
        made = world(*taints)
        made.wait_for("c", request("own"))
        cycle = made.cycle(unanswered)
        cycle.once()
        made.clock.now += PATIENCE
        cycle.once()
        assert made.warned == []


async def test_nothing_is_said_where_no_pod_waits_or_the_class_became_managed(unanswered: Client) -> None:
    """A claim without a pod waits for one; a class may be labelled meanwhile."""
    made = world(GUARD)
    made.claim("alone", request("own"))
    made.wait_for("c", request("own"))
    cycle = made.cycle(unanswered)
    cycle.once()
    made.device_class("own", 'device.driver == "gpu.apportion.dev"')
    made.clock.now += PATIENCE
    cycle.once()
    assert [reason for _, reason in made.warned if reason == "UnmanagedClass"] == []


async def test_of_thousands_of_pods_that_name_a_claim_not_all_hear_of_it(unanswered: Client) -> None:
    """Events of 5,000 took a fifth of a second in one step; no more than 256 pods can reserve a claim."""
    made = world(GUARD)
    made.claim("c", request("own"))
    for number in range(1_000):
        made.pod(f"p{number}", "c")
    cycle = made.cycle(unanswered)
    cycle.once()
    made.clock.now += PATIENCE
    cycle.once()
    cycle.once()
    assert len(made.warned) == 257
