"""Pods that also have claims which kube-scheduler allocates."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet


def beside(world: ObservedCluster, **nodes: Json) -> None:
    """Publish a device `nic` of another driver on each of these nodes, with these further fields."""
    for node, extra in nodes.items():
        spec = {
            "driver": "nic.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "nic", **extra}],
        }
        world.see(SLICES, {"metadata": {"name": f"nic-{node}"}, "spec": spec})


def two_claims(world: ObservedCluster) -> None:
    """Let a pod wait for a device of ours and one of class `theirs`."""
    world.device_class("theirs", 'device.driver == "nic.example.com"', unmanaged="yes")
    world.claim("ours", request("gpu"))
    world.claim("nic", request("theirs"))
    world.pod("p", "ours", "nic")


@pytest.mark.slow
@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_a_node_is_chosen_where_the_other_claim_fits_too(unanswered: Client, node: str) -> None:
    """kube-scheduler would refuse the others one by one."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    beside(world, **{node: {}})
    two_claims(world)
    world.cycle(unanswered).once()
    assert world.places() == {"ours": node}


async def test_nothing_is_held_for_a_pod_whose_other_claim_cannot_be_served(unanswered: Client) -> None:
    """As kube-scheduler would hold nothing; the Event names the other claim. Served once a device is free."""
    world = fleet({"n1": ("h100", 1)})
    beside(world, n1={})
    world.device_class("theirs", 'device.driver == "nic.example.com"', unmanaged="yes")
    taken = world.claim("taken", request("theirs"))
    result = {"request": "theirs", "driver": "nic.example.com", "pool": "n1", "device": "nic"}
    taken["status"] = {"allocation": {"devices": {"results": [result]}}}
    world.see(CLAIMS, taken)
    two_claims(world)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert "ours" not in world.places()
    assert ("p", "ClaimsNotAllocated") in world.warned
    world.gone(CLAIMS, taken)
    cycle.once()
    assert world.places() == {"ours": "n1"}


async def test_what_is_tainted_for_it_does_not_count(unanswered: Client) -> None:
    """The guard of our devices is tolerated for claims of ours only."""
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    guard = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
    beside(world, n1={"taints": [guard]}, n2={})
    two_claims(world)
    world.cycle(unanswered).once()
    assert world.places() == {"ours": "n2"}
