"""ResourceSlices that a newer release wrote: what is in them is unknown, so that nobody has all devices of the node."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import SLICES
from tests.observedcluster import Json, ObservedCluster, request

NEWER: Json = {"newer": "form"}
NODES: list[Json] = [
    {"nodeName": "n1"},
    {"allNodes": True},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}},
    {"perDeviceNodeSelection": True},
]


def unreadable(world: ObservedCluster, nodes: Json, generation: int = 1, **devices: Any) -> Json:
    """Show the only slice of a pool, whose devices cannot be read."""
    spec = {
        "driver": "other.example.com",
        "pool": {"name": "others", "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "d", "attributes": NEWER, **devices}],
        **nodes,
    }
    return world.see(SLICES, {"metadata": {"name": f"s{generation}", "uid": f"s{generation}"}, "spec": spec})


def places(world: ObservedCluster, client: Client) -> dict[str, str | None]:
    """Return what one pass decides."""
    world.cycle(client).once()
    return world.places()


def waiting(mode: str) -> ObservedCluster:
    """Return a node with a card, and a pod whose claim waits for devices of it."""
    world = ObservedCluster()
    world.node("n1", zone="a")
    world.card("n1")
    world.device_class(
        "gpu", 'device.driver == "gpu.apportion.dev" && device.attributes["gpu.apportion.dev"].type == "gpu"'
    )
    world.policy()
    world.wait_for("c", request("gpu", allocationMode=mode))
    return world


@pytest.mark.parametrize("nodes", NODES)
async def test_a_claim_for_all_devices_waits_while_a_pool_of_the_node_cannot_be_read(
    unanswered: Client, nodes: Json
) -> None:
    """Whatever is in the slice may be one of all; kube-scheduler knows it, and takes it."""
    world = waiting("All")
    raw = unreadable(world, nodes)
    assert places(world, unanswered) == {}
    world.gone(SLICES, raw)
    assert places(world, unanswered) == {"c": "n1"}


async def test_other_claims_are_served_beside_a_pool_that_cannot_be_read(unanswered: Client) -> None:
    """They take what is known."""
    world = waiting("ExactCount")
    unreadable(world, NODES[0])
    assert places(world, unanswered) == {"c": "n1"}


@pytest.mark.parametrize(
    "nodes", [{"nodeName": "n2"}, {"nodeSelector": NEWER}, {"nodeSelector": {"nodeSelectorTerms": "newer"}}]
)
async def test_a_slice_of_other_or_of_unknown_nodes_holds_up_nobody(unanswered: Client, nodes: Json) -> None:
    """As in `GatherPools`: a node selection that nobody knows is that of no node."""
    world = waiting("All")
    unreadable(world, nodes)
    assert places(world, unanswered) == {"c": "n1"}
