"""Limits of a model or a capacity hold while devices in use are in no slice, and the operator has never seen them.

Kubelet deletes the slices of an agent that is away for 30 seconds; the pods run on.
"""

from collections.abc import Sequence

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.quota.tenants import GPUS, cluster, quota, said, wait

MODEL: Json = {"name": "h100", "model": "H100", "limit": 2}
MEMORY: Json = {"name": "memory", "capacity": "memory", "limit": "320Gi"}


def publish(world: ObservedCluster, node: str, models: Sequence[str]) -> Json:
    """Publish a GPU of each of these models on a node."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"productName": {"string": model}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number, model in enumerate(models)
    ]
    return world.slice(node, f"{node}-devices", {"devices": devices}, 1)


def started(*resources: Json) -> ObservedCluster:
    """Return what an operator sees that starts while two GPUs of a tenant on one node are not published."""
    world = cluster(0, "a")
    publish(world, "n2", ["H100", "A100"])
    world.node("n2", cpu="64")
    quota(world, "a", *resources)
    for number in range(2):
        raw = wait(world, "a", f"runs-{number}", at=number)
        results = [{"request": "gpu", "driver": GPU, "pool": "n1", "device": f"gpu-{number}"}]
        world.see(CLAIMS, raw | {"status": {"allocation": {"devices": {"results": results}}}})
    return world


@pytest.mark.parametrize("counted", [MODEL, MEMORY], ids=["model", "capacity"])
async def test_limits_hold_until_devices_in_use_are_published(silent: Client, counted: Json) -> None:
    """What they are charged is known then, and the demand goes on."""
    world = started(counted)
    publish(world, "n2", ["H100"])
    wait(world, "a", "next", at=2)
    cycle = world.cycle(silent)
    cycle.once()
    assert "next" not in world.places()
    [text] = {*said(world, "next", "ExceedsLimit")}
    assert text.endswith("; 2 in use are not published now, and may count")
    publish(world, "n1", ["A100", "A100"])
    cycle.once()
    assert "next" in world.places()


async def test_a_limit_of_a_model_leaves_devices_of_another_one(silent: Client) -> None:
    """It is asked about anew without those of the model that the others may be of."""
    world = started(MODEL)
    wait(world, "a", "next", at=2)
    world.cycle(silent).once()
    assert world.places()["next"] == "n2"
    claim = world.snapshot.claim("a", "next")
    assert claim is not None
    allocation = world.snapshot.allocation(claim)
    assert allocation is not None
    assert [each.device.name for each in allocation.results] == ["gpu-1"]


async def test_a_limit_of_devices_goes_on(silent: Client) -> None:
    """How many there are is known."""
    world = started(GPUS | {"limit": 3})
    for name in ("next", "other"):
        wait(world, "a", name, at=2)
    world.cycle(silent).once()
    assert {"next", "other"} & world.places().keys() == {"next"}
    assert said(world, "other", "ExceedsLimit")[0].endswith("used 3, asked 1, limit 3")


async def test_limits_hold_after_a_take_over(silent: Client) -> None:
    """The replica that takes over has charged nothing before."""
    world = cluster(2, "a")
    first = publish(world, "n1", ["H100", "H100"])
    quota(world, "a", MODEL)
    for number in range(3):
        wait(world, "a", f"a-{number}", at=number)
    world.cycle(silent).once()
    assert len(world.places()) == 2
    world.gone(SLICES, first)
    world.node("n2", cpu="64")
    publish(world, "n2", ["H100"])
    world.cycle(silent).once()
    assert len(world.places()) == 2
