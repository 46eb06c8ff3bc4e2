"""Pod groups and quotas: as many pods as the limit leaves, if they are enough, else none."""

from typing import Any

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import cluster, quota, said, wait
from tests.scheduling.podgroups import OURS


def group(world: ObservedCluster, least: int, pods: int = 4) -> None:
    """Let a group of pods wait, each for one GPU."""
    for number in range(pods):
        name = f"g{number}"
        metadata: dict[str, Any] = {"name": name, "namespace": "a"}
        spec = {"devices": {"requests": [request("gpu")]}}
        world.see(CLAIMS, {"metadata": dict(metadata), "spec": spec})
        metadata |= {"labels": {OURS[0]: "g"}, "annotations": {OURS[1]: str(least)}}
        claims = {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}
        world.see(PODS, {"metadata": metadata, "spec": claims})


async def test_a_group_gets_as_many_pods_as_the_limit_leaves_if_they_are_enough(silent: Client) -> None:
    """Three of four, where two would be enough."""
    world = cluster(8, "a")
    quota(world, "a", limit=3)
    group(world, least=2)
    world.cycle(silent).once()
    assert len(world.places()) == 3


async def test_a_group_for_which_the_limit_leaves_too_little_gets_nothing_and_says_so(silent: Client) -> None:
    """All of its pods hear it; another tenant's pod is served."""
    world = cluster(8, "a", "b")
    quota(world, "a", limit=3)
    group(world, least=4)
    wait(world, "b", "b0")
    world.cycle(silent).once()
    assert world.places().keys() == {"b0"}
    text = "AcceleratorQuota a, resource gpus: used 0, asked 4, limit 3"
    assert [said(world, f"g{number}", "ExceedsLimit")[0] for number in range(4)] == [text] * 4


async def test_the_devices_of_a_group_are_charged_as_they_are_chosen(silent: Client) -> None:
    """What a model's limit leaves is known only then: the group is refused by what its devices take."""
    world = cluster(0, "a")
    devices = [{"name": f"gpu-{number}", "attributes": {"model": {"string": "h100"}}} for number in range(4)]
    world.slice("n1", "n1-more", {"devices": devices}, 1, pool="more")
    quota(world, "a", {"name": "h100s", "model": "h100", "limit": 3})
    group(world, least=4)
    world.cycle(silent).once()
    assert world.places() == {}
    text = "AcceleratorQuota a, resource h100s: used 0, asked 4, limit 3"
    assert set(said(world, "g0", "ExceedsLimit")) == {text}
