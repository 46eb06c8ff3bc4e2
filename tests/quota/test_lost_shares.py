"""Shares of a GPU that claims have lost while their containers may run on: what an agent publishes of them, and what quotas make of it."""

import pytest

from apportion.agent.devices.simulated.cards import make
from apportion.agent.devices.simulated.simulation import Simulation
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, Share
from apportion.agent.slices.changes import Owner, slice_changes
from apportion.agent.slices.compose import compose
from apportion.agent.slices.pool import pools
from apportion.agent.slices.shares import PublishedSharing
from apportion.api.policy import SharingStrategy
from apportion.cluster.client import Client
from apportion.cluster.cutoffclaims import PATIENCE
from apportion.cluster.kinds import CLAIMS, PODS, SLICES
from tests.agent.places import DRIVERS, GPU, H100
from tests.observedcluster import Json, ObservedCluster, request
from tests.quota.tenants import cluster, quota, wait

GIB = 2**30
LOST = 6
"""Claims that lose their shares."""


@pytest.fixture
def world() -> ObservedCluster:
    """A GPU of 81,559 MiB that many claims share, and a tenant."""
    made = cluster(0, "a")
    made.gone(SLICES, made.seen.pop((SLICES, "", "n1-devices")))
    publish(made)
    return made


def publish(world: ObservedCluster, *lost: str, gib: int = 10, cores: int = 0, most: int = 100) -> None:
    """Let the agent publish its GPU, of which these claims (UIDs) have lost so much each; `cores` in percent: by MPS."""
    ((card, *_),) = make(Simulation.model_validate({"cards": [H100]}), "n1")
    rows = tuple(
        ClaimRow(
            uid,
            GPU,
            "a",
            uid,
            ClaimStep.PREPARED,
            (ClaimDevice("gpu-0", "gpu-0", "n1", ("gpu",), "x", share=Share(uid, gib * GIB, cores)),),
        )
        for uid in lost
    )
    sharing = PublishedSharing(SharingStrategy.MPS if cores else SharingStrategy.TIME_SLICING, most)
    [pool] = pools(compose((card,), (), {}, rows, {}, sharing=sharing), DRIVERS)
    live = [raw for (kind, *_), raw in world.seen.items() if kind == SLICES]
    todo = slice_changes(pool, live, Owner("n1", "uid-of-n1"))
    for raw in (*todo.updates, *todo.creates):
        world.see(SLICES, raw)


def run(world: ObservedCluster, name: str) -> str:
    """Let a pod of the tenant run with 10 GiB of the GPU; returns the UID of its claim."""
    raw = ask(world, name)
    pod = world.seen[PODS, "a", name]
    result: Json = {"request": "gpu", "driver": GPU, "pool": "n1", "device": "gpu-0", "shareID": name}
    result["consumedCapacity"] = {"memory": "10Gi", "shares": "1"}
    consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    world.see(CLAIMS, raw | {"status": status})
    world.see(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n1"}, "status": {"phase": "Running"}})
    return str(raw["metadata"]["uid"])


def ask(world: ObservedCluster, name: str, at: int = 0) -> Json:
    """Let a pod wait for 10 GiB of a GPU."""
    return wait(world, "a", name, request("gpu", capacity={"requests": {"memory": "10Gi"}}), at=at)


def delete_by_force(world: ObservedCluster, name: str) -> None:
    """Delete a pod while its containers run; its claim goes with it."""
    world.gone(PODS, world.seen[PODS, "a", name])
    world.gone(CLAIMS, world.seen[CLAIMS, "a", name])


async def test_each_of_many_claims_that_have_lost_their_shares_is_charged_until_it_is_unprepared(
    world: ObservedCluster, silent: Client
) -> None:
    """A device has room for few taints: whom no taint named was charged for 25 seconds, and its tenant had more than its limit."""
    quota(world, "a", {"name": "memory", "capacity": "memory", "limit": f"{10 * LOST}Gi"})
    cycle = world.cycle(silent)
    claims = [run(world, f"runs-{number}") for number in range(LOST)]
    cycle.once()
    for number in range(LOST):
        delete_by_force(world, f"runs-{number}")
    ask(world, "next", at=1)
    cycle.once()
    publish(world, *claims)
    world.clock.now += 10 * PATIENCE
    cycle.once()
    assert "next" not in world.places()
    publish(world, *claims[:-1])
    cycle.once()
    assert world.places() == {"next": "n1"}


@pytest.mark.parametrize(
    ("lost", "gib", "cores", "most", "part"),
    [(1, 60, 0, 100, 126), (3, 1, 0, 4, 250), (1, 1, 90, 10, 126)],
    ids=["memory", "shares", "cores"],
)
async def test_a_share_is_charged_as_the_same_part_of_a_gpu_whatever_others_have_lost_of_it(
    world: ObservedCluster, silent: Client, lost: int, gib: int, cores: int, most: int, part: int
) -> None:
    """An eighth of the memory is no half of a GPU, because a claim of somebody else still has most of it."""
    quota(world, "a", {"name": "gpus", "deviceClass": "gpu", "limit": f"{part}m"})
    cycle = world.cycle(silent)
    publish(world, *(f"lost-{number}" for number in range(lost)), gib=gib, cores=cores, most=most)
    ask(world, "next")
    cycle.once()
    assert world.places() == {"next": "n1"}
    ask(world, "one-more", at=1)
    cycle.once()
    assert "one-more" not in world.places()
