"""Claims that wait, on nodes with devices of a few models."""

from collections.abc import Mapping

from apportion.allocator.demand import Demand
from apportion.cluster.client import Client
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.allocator.builders import claim, device_request
from tests.observedcluster import GPU, Json, ObservedCluster

MODEL = f'device.attributes["{GPU}"].model'


def world() -> ObservedCluster:
    made = ObservedCluster()
    made.device_class("gpu")
    made.device_class("theirs", unmanaged="yes")
    return made


def names(made: ObservedCluster) -> list[list[str]]:
    demands, _ = waiting_demands(made.snapshot)
    return [[claim.name for claim in demand.claims] for demand in demands]


def parts(names: str) -> list[Demand]:
    """Return claims for a part of a chip each."""
    return [Demand((claim(name, device_request(kind="part")),)) for name in names]


async def placed(
    client: Client, nodes: Mapping[str, tuple[str, int]], requests: Mapping[str, Json]
) -> dict[str, str | None]:
    """Let a cycle decide for claims that wait together; return the nodes of those that are served."""
    world = fleet(nodes)
    for name, asked in requests.items():
        world.wait_for(name, asked)
    world.cycle(client).once()
    return world.places()


def fleet(nodes: Mapping[str, tuple[str, int]]) -> ObservedCluster:
    """Return nodes with so many devices of a model each."""
    world = ObservedCluster()
    world.device_class("gpu")
    for node, (model, count) in nodes.items():
        world.node(node, cpu="64")
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}} for number in range(count)
        ]
        world.slice(node, f"{node}-devices", {"devices": devices}, 1)
    return world
