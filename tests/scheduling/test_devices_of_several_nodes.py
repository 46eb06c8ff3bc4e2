"""Devices that several nodes reach, such as those of a network: who has one is in nobody's way, and counts as any other."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, NODES
from apportion.dra.node import OPTIONAL_NODE_OPERATIONS
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.lookingfornodes import H200, shown, waits
from tests.scheduling.queued import fleet
from tests.scheduling.reserving import Reserving

ZONE: Json = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
}


def reached_by_all(world: ObservedCluster) -> None:
    """Publish a device that is of no single node."""
    device = {"name": "channel-0", "attributes": {"model": {"string": "channel"}}}
    content = {"nodeName": None, "allNodes": True, "devices": [device]}
    world.slice("", "fabric", content, 1, pool="fabric")


def has_it(world: ObservedCluster, claim: Json, *, alone: bool) -> None:
    """Let a claim have the device, beside those that it has, or alone."""
    if alone:
        world.allocate(claim, "fabric", "channel-0")
        claim["status"]["allocation"]["nodeSelector"] = None
    else:
        device = {"request": "gpu", "driver": GPU, "pool": "fabric", "device": "channel-0"}
        claim["status"]["allocation"]["devices"]["results"].append(device)
    world.see(CLAIMS, claim)


def test_autoscalers_see_who_fits_nowhere_while_somebody_has_such_a_device() -> None:
    """Each node reaches the device, so that no pod was ever seen as long as one had it."""
    for alone in (True, False):
        world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
        reached_by_all(world)
        claim = world.claim("other")
        if not alone:
            world.allocate(claim, "n1", "gpu-0")
        has_it(world, claim, alone=alone)
        before = world.snapshot.state.view("n1").holdings
        waits(world, "p", request("gpu", expression=H200))
        assert shown(world) == {"p"}
        assert world.snapshot.state.view("n1").holdings == before


async def test_devices_are_reserved_that_somebody_has_together_with_such_a_one(unanswered: Client) -> None:
    """They become free as others do; without a reservation smaller pods overtake the first of the queue."""
    queue = Reserving(unanswered, {"n1": 2})
    queue.starts("runs", 2)
    reached_by_all(queue.world)
    has_it(queue.world, queue.claim_of("runs"), alone=False)
    queue.comes("head", 2)
    queue.passes()
    queue.passes()
    assert queue.reserved == {"head": (["n1"], None)}


async def test_where_kube_scheduler_finds_no_room_for_who_has_such_a_device_the_next_one_gets_it(
    unanswered: Client,
) -> None:
    """It takes the device back. The pod got it at once each time, as the first of the queue, and others waited for ever."""
    world = fleet({})
    for node in ("n1", "n2"):
        world.node(node, zone="a")
    content = {"nodeName": None, "nodeSelector": ZONE, "devices": [{"name": "channel-0"}]}
    world.slice("", "fabric", content, 1, pool="fabric")
    claim = world.claim("a-stuck")
    world.pod("a-stuck", "a-stuck")
    cycle = world.cycle(unanswered)
    world.allocate(claim, "fabric", "channel-0")
    claim["status"]["allocation"]["nodeSelector"] = ZONE
    world.see(CLAIMS, claim)
    world.wait_for("other", request("gpu"))
    cycle.once()
    world.see(CLAIMS, claim | {"status": {}})
    cycle.once()
    assert {name: bool(devices(world, name)) for name in ("a-stuck", "other")} == {
        "a-stuck": False,
        "other": True,
    }


async def test_a_pod_goes_where_kubelet_leaves_out_what_its_allocation_says(unanswered: Client) -> None:
    """Its other claim has a device of every node with `skipNodeOperations`: kube-scheduler lets it only go where kubelet declares that."""
    world = fleet(dict.fromkeys(("n1", "n2", "n3"), ("h100", 1)))
    declaring = world.seen[NODES, "", "n2"]
    declaring["status"]["declaredFeatures"] = [OPTIONAL_NODE_OPERATIONS]
    world.see(NODES, declaring)
    reached_by_all(world)
    shared = world.claim("shared")
    has_it(world, shared, alone=True)
    shared["status"]["allocation"]["devices"]["results"][0]["skipNodeOperations"] = ["*"]
    world.see(CLAIMS, shared)
    world.claim("own")
    world.pod("p", "own", "shared")
    world.cycle(unanswered).once()
    assert world.places()["own"] == "n2"


def devices(world: ObservedCluster, name: str) -> list[str]:
    """Return the devices of a claim, none while it waits."""
    claim = world.snapshot.claim("team", name)
    assert claim is not None
    found = world.snapshot.allocation(claim)
    return [result.device.name for result in found.results] if found is not None else []
