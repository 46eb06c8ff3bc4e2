"""Many nodes with a card each, and partitions that claims hold there."""

from apportion.api.contract import GATE
from apportion.cel import Programs
from apportion.cluster.client import Client
from apportion.cluster.kinds import PARTITIONS
from apportion.dra.claim import Claim
from apportion.partitions.controller import PartitionController
from apportion.partitions.dynamicpartitions import Create, DynamicPartitions
from testbed.cycle import now
from tests.observedcluster import ObservedCluster
from tests.partitions.onecard import FIRST


def cards(nodes: int) -> ObservedCluster:
    """Return nodes with a card each."""
    world = ObservedCluster()
    world.device_class("gpu")
    for number in range(nodes):
        world.node(f"n{number}")
        world.card(f"n{number}")
    return world


def many(nodes: int) -> ObservedCluster:
    """Return nodes on each of which a claim holds a partition that is cut."""
    world = cards(nodes)
    for number in range(nodes):
        name = f"c{number}"
        world.allocate(world.claim(name), f"n{number}", FIRST)
        world.pod(name, name, gates=[GATE])
    for action in DynamicPartitions(world.clock).actions(world.snapshot):
        if isinstance(action, Create):
            world.see(PARTITIONS, action.partition.to_json() | {"status": {"phase": "Ready"}})
    return world


def whole(nodes: int) -> ObservedCluster:
    """Return nodes on each of which a claim has the whole card."""
    world = cards(nodes)
    for number in range(nodes):
        world.allocate(world.claim(f"c{number}"), f"n{number}", "gpu-0")
    return world


def controller(world: ObservedCluster, client: Client) -> PartitionController:
    return PartitionController(
        client,
        world.snapshot,
        world.recorder(client),
        Programs(),
        fence=lambda: None,
        clock=world.clock,
        now=now,
    )


def first_claim(world: ObservedCluster) -> Claim:
    return next(claim for claim in world.snapshot.claims.values() if claim.name == "c0")
