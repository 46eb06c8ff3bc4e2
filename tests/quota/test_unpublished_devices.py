"""Limits of a model or a capacity hold while devices in use are in no slice, and the operator has never seen them.

Kubelet deletes the slices of an agent that is away for 30 seconds; the pods run on.
"""

from collections.abc import Sequence

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, SLICES
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.quota.tenants import GPUS, cluster, quota, said, wait
from tests.scheduling.evicting import SteeredEvictor, Trial, holds, waits

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


def shares(*resources: Json, cohort: str | None = None) -> ObservedCluster:
    """Return what an operator sees that starts while ten pods of a tenant share a GPU that is not published."""
    world = cluster(1, "a", "b")
    world.policy("p", preemption={"mode": "Never", "after": "0s", "minRuntime": "0s"})
    quota(world, "a", *resources, cohort=cohort, reclaims=cohort is not None)
    for number in range(10):
        raw = wait(world, "a", f"share-{number}", at=number)
        result = {"request": "gpu", "driver": GPU, "pool": "n2", "device": "gpu-0", "shareID": f"s{number}"}
        result["consumedCapacity"] = {"memory": "8Gi"}
        world.see(CLAIMS, raw | {"status": {"allocation": {"devices": {"results": [result]}}}})
    return world


async def test_shares_of_a_device_that_is_not_published_count_as_borrowed_no_more_than_they_are(
    unanswered: Client,
) -> None:
    """Ten tenths of a GPU counted as ten: the pod of another GPU, which is guaranteed as well, was evicted for who has a guarantee, too."""
    world = shares(GPUS | {"guaranteed": 2}, cohort="x")
    quota(world, "b", cohort="x", reclaims=True, guaranteed=1)
    holds(world, "whole", 0, team="a")
    waits(world, "b1", 1, team="b")
    evictor = SteeredEvictor(world)
    made = Trial(world, world.cycle(unanswered, evictor=evictor), evictor)
    await made.passes(4)
    assert made.evicted == []


async def test_a_limit_counts_shares_of_a_device_that_is_not_published_as_whole_ones(silent: Client) -> None:
    """Each may be all of it; where the device is published it is known how much they are."""
    world = shares(GPUS | {"limit": 2})
    wait(world, "a", "next", at=20)
    cycle = world.cycle(silent)
    cycle.once()
    assert "next" not in world.places()
    assert said(world, "next", "ExceedsLimit")[0].endswith("; 10 in use are not published now, and may count")
    shared = {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}, "allowMultipleAllocations": True}
    world.slice("n2", "n2-devices", {"devices": [shared]}, 1)
    cycle.once()
    assert world.places()["next"] == "n1"


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
