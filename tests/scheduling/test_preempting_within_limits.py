"""Pods go for the devices that the limit of a quota leaves, not in vain for others, and not for nobody."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import SteeredEvictor, Trial, ends, joins
from tests.scheduling.queued import fleet

EITHER: Json = {
    "name": "gpu",
    "firstAvailable": [{"name": model, "deviceClassName": model} for model in ("h100", "a100")],
}


def _holds(world: ObservedCluster, name: str, model: str, device: str, age: float) -> None:
    """Let a pod of tenant `b` have a device of a model since so many seconds."""
    claim = world.claim(name, request(model), namespace="b")
    pod = world.pod(name, name, spec={"nodeName": "n1", "priority": 0}, namespace="b")
    user = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    world.allocate(claim, "n1", device, timestamp=world.time(-age), reservedFor=[user])
    claim["status"]["allocation"]["devices"]["results"][0]["pool"] = model
    world.see(CLAIMS, claim)


def _cluster(client: Client, limited: Json, **devices: int) -> Trial:
    """Return a node with devices of two models, all of which pods of tenant `b` have, those of H100s since a shorter time; and a limit of tenant `a`."""
    world = fleet({"n1": ("none", 0)})
    for model, count in devices.items():
        named = {"model": {"string": model}}
        rows = [{"name": f"{model}-{number}", "attributes": named} for number in range(count)]
        world.slice("n1", f"n1-{model}", {"devices": rows}, 1, pool=model)
        world.device_class(model, f'device.attributes["{GPU}"].model == "{model}"')
    settings = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s", "cooldown": "60s"}
    world.policy(classes=["gpu", "h100", "a100"], preemption=settings, queue={"mostReserved": 0})
    for team in "ab":
        namespace(world, team, team=team)
    quota(world, "a", {"name": "h100s", "limit": 0, **limited})
    for model, count in devices.items():
        for number in range(count):
            name, age = f"{model}-{number}", (7200 if model == "a100" else 3600) + number
            _holds(world, name, model, name, age)
    evictor = SteeredEvictor(world)
    return Trial(world, world.cycle(client, evictor=evictor), evictor)


async def gets_the_a100(made: Trial, wanted: Json) -> None:
    """Let a pod of high priority come, for which the pod on the A100 goes, and which is served then."""
    made.world.claim("w", wanted, namespace="a")
    made.world.pod("w", "w", gates=(GATE,), spec={"priority": 9}, namespace="a")
    await made.passes(4)
    assert made.evicted == ["a100-0"]
    ends(made.world, "a100-0")
    await made.passes()
    assert "w" in made.world.places()


@pytest.mark.parametrize(
    ("limited", "wanted"),
    [
        ({"deviceClass": "h100"}, EITHER),
        ({"model": "h100"}, EITHER),
        ({"model": "h100"}, request("gpu")),
    ],
)
async def test_a_pod_goes_that_has_what_the_limit_leaves(
    unanswered: Client, limited: Json, wanted: Json
) -> None:
    """Of the other model there is nothing for the one that waits, though it would cost less."""
    made = _cluster(unanswered, limited, h100=1, a100=1)
    await gets_the_a100(made, wanted)


@pytest.mark.parametrize("wanted", [EITHER, request("gpu")])
async def test_a_pod_goes_though_a_device_is_free_that_the_limit_rules_out(
    unanswered: Client, wanted: Json
) -> None:
    """What the limit leaves is used by others."""
    made = _cluster(unanswered, {"model": "h100"}, h100=1, a100=1)
    ends(made.world, "h100-0")
    await gets_the_a100(made, wanted)


async def test_pods_go_for_a_group_though_devices_are_free_that_the_limit_rules_out(
    unanswered: Client,
) -> None:
    """One member may have one of the free H100s."""
    made = _cluster(unanswered, {"model": "h100", "limit": 1}, h100=3, a100=2)
    ends(made.world, *(f"h100-{number}" for number in range(3)))
    joins(made.world, "g0", "g1", "g2", team="a", priority=9)
    await made.passes(4)
    assert sorted(made.evicted) == ["a100-0", "a100-1"]


async def test_for_a_group_pods_go_that_have_what_the_limit_leaves(unanswered: Client) -> None:
    """One member may have an H100, two get A100s."""
    made = _cluster(unanswered, {"model": "h100", "limit": 1}, h100=3, a100=2)
    joins(made.world, "g0", "g1", "g2", team="a", priority=9)
    await made.passes(4)
    assert sorted(name.partition("-")[0] for name in made.evicted) == ["a100", "a100", "h100"]


async def test_nobody_goes_where_the_limit_leaves_too_little(unanswered: Client) -> None:
    """Three members, of which one may have an H100, and one A100."""
    made = _cluster(unanswered, {"model": "h100", "limit": 1}, h100=3, a100=1)
    joins(made.world, "g0", "g1", "g2", team="a", priority=9)
    await made.passes(4)
    assert made.evicted == []
