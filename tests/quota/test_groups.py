"""Pod groups and quotas: as many pods as the limit leaves, if they are enough, else none."""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.quota.tenants import cluster, quota, said, wait
from tests.scheduling.podgroups import OURS


def group(world: ObservedCluster, least: int, pods: int = 4, wanted: Json | None = None) -> None:
    """Let a group of pods wait, each for one GPU, or for what is wanted."""
    for number in range(pods):
        name = f"g{number}"
        metadata: dict[str, Any] = {"name": name, "namespace": "a"}
        spec = {"devices": {"requests": [wanted or request("gpu")]}}
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


async def test_a_group_that_asks_for_more_than_a_float_holds_waits_for_its_quota(silent: Client) -> None:
    """The API server stores such an amount; deciding about the group broke down."""
    world = cluster(8, "a")
    quota(world, "a", {"name": "memory", "capacity": "memory", "limit": "100Gi"})
    group(world, least=2, wanted=request("gpu", capacity={"requests": {"memory": "1e900"}}))
    world.cycle(silent).once()
    assert said(world, "g0", "ExceedsLimit")


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


def models(world: ObservedCluster, **counts: int) -> None:
    """Publish so many devices of each model."""
    for model, count in counts.items():
        named = {"model": {"string": model}}
        devices = [{"name": f"{model}-{number}", "attributes": named} for number in range(count)]
        world.slice("n1", f"n1-{model}", {"devices": devices}, 1, pool=model)


def taken(world: ObservedCluster) -> Counter[str]:
    """Return how many devices of each model claims have."""
    found = [world.snapshot.allocation(claim) for claim in world.snapshot.claims.values()]
    return Counter(result.device.pool for each in found if each is not None for result in each.results)


MODELS = ("a100", "h100", "l40s")


@given(
    st.fixed_dictionaries({model: st.integers(0, 4) for model in MODELS}),
    st.fixed_dictionaries({}, optional={model: st.integers(0, 4) for model in MODELS}),
    st.integers(1, 6),
    st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pods_of_a_group_get_other_models_where_a_limit_leaves_no_more_of_one(
    silent: Client, counts: dict[str, int], limits: dict[str, int], pods: int, data: st.DataObject
) -> None:
    """As many as fit within all limits, if they are enough: each asks for any device."""
    least = data.draw(st.integers(1, pods))
    world = cluster(0, "a")
    models(world, **counts)
    rows = [{"name": model, "model": model, "limit": limit} for model, limit in limits.items()]
    quota(world, "a", *rows, {"name": "others", "model": "none"})
    group(world, least, pods)
    world.cycle(silent).once()
    most = min(pods, sum(min(count, limits.get(model, count)) for model, count in counts.items()))
    got = taken(world)
    assert got.total() == (most if most >= least else 0)
    assert all(got[model] <= limit for model, limit in limits.items())


async def test_pods_of_a_group_get_a_later_alternative_where_a_limit_leaves_no_more_of_the_first(
    silent: Client,
) -> None:
    """Two of four get the class that they want first."""
    world = cluster(0, "a")
    models(world, a100=4, h100=4)
    for model in ("a100", "h100"):
        world.device_class(model, f'device.attributes["{GPU}"].model == "{model}"')
    quota(world, "a", {"name": "h100s", "deviceClass": "h100", "limit": 2})
    listed = [{"name": model, "deviceClassName": model} for model in ("h100", "a100")]
    group(world, 4, 4, {"name": "gpu", "firstAvailable": listed})
    world.cycle(silent).once()
    assert taken(world) == {"a100": 2, "h100": 2}
