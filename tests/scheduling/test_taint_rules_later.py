"""DeviceTaintRules that come and go: what was found out about devices before is found out anew, as when slices change."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import TAINT_RULES
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from apportion.scheduling.backfill.reservations import REPLANNED
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.lookingfornodes import said, seen, waits
from tests.scheduling.queued import fleet
from tests.scheduling.reserving import DEVICES, Reserving, on


def leave_alone(world: ObservedCluster, node: str) -> None:
    """Let a person leave all devices of a node alone."""
    spec = {
        "deviceSelector": {"driver": GPU, "pool": node},
        "taint": {"key": "example.com/repair", "effect": "NoSchedule"},
    }
    world.see(TAINT_RULES, {"metadata": {"name": f"repair-{node}"}, "spec": spec})


def use_anew(world: ObservedCluster, node: str) -> None:
    """Let the rule be deleted."""
    world.gone(TAINT_RULES, world.seen[TAINT_RULES, "", f"repair-{node}"])


async def test_a_reservation_leaves_a_node_whose_devices_nobody_gets_any_more(unanswered: Client) -> None:
    """It stayed there for as long as its pods ran: what became free elsewhere went to others."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES}, mostReserved=1)
    for node in ("n1", "n2"):
        for number in range(2):
            made.starts(f"{node}-{number}", DEVICES // 2, spec={"affinity": on(node)})
    made.comes("large", DEVICES)
    assert made.passes() == []
    [(nodes, _)] = made.reserved.values()
    leave_alone(made.world, *nodes)
    for _ in range(4):
        made.passes(REPLANNED)
    assert made.reserved["large"][0] == [*{"n1", "n2"}.difference(nodes)]


def test_autoscalers_see_a_pod_once_a_rule_leaves_it_no_device_and_see_it_no_more_when_that_goes() -> None:
    """It waited behind its gate for a node that nobody made, or a node was made for it though one has its devices."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", count=1))
    look = said(world)
    look()
    world.clock.now += PATIENCE
    assert look() == {}
    leave_alone(world, "n1")
    world.clock.now += PATIENCE
    assert look() == {"p": True}
    seen(world, "p")
    look()
    world.clock.now += PATIENCE
    assert look() == {}
    use_anew(world, "n1")
    world.clock.now += PATIENCE
    assert look() == {"p": False}
