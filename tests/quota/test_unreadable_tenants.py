"""What cannot be read counts: a claim its devices in its quota, a quota its limits (docs/architecture.md, invariant 7)."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, NAMESPACES, QUOTAS
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.quota.tenants import GPUS, cluster, quota, wait

NEWER: Json = {"key": "level", "operator": "Lt", "values": ["5"]}
"""A condition of a later release."""


def deep() -> Json:
    """Return parameters that the API server stores, and nobody reads: they are nested too deep."""
    found: Any = {}
    for _ in range(120):
        found = {"a": found}
    return {"opaque": {"driver": "example.com", "parameters": found}}


@pytest.mark.parametrize("prioritized", [False, True], ids=["exactly", "firstAvailable"])
async def test_devices_of_a_claim_that_cannot_be_read_are_charged_by_their_class(
    silent: Client, *, prioritized: bool
) -> None:
    """kube-scheduler allocated it, by a toleration without a key."""
    world = cluster(8, "a")
    quota(world, "a", limit=2)
    asked: Json = request("gpu")
    name = asked["name"]
    if prioritized:
        asked = {"name": name, "firstAvailable": [asked["exactly"] | {"name": "first"}]}
        name += "/first"
    for number in range(2):
        result = {"request": name, "driver": GPU, "pool": "n1", "device": f"gpu-{number}"}
        world.see(
            CLAIMS,
            {
                "metadata": {"name": f"deep-{number}", "namespace": "a"},
                "spec": {"devices": {"requests": [asked], "config": [deep()]}},
                "status": {"allocation": {"devices": {"results": [result]}}},
            },
        )
    wait(world, "a", "more")
    world.cycle(silent).once()
    assert "more" not in world.places()


def later(world: ObservedCluster, selector: Json) -> None:
    """Add the oldest quota, with a limit of one GPU, whose selector an operator that was rolled back cannot read."""
    metadata = {"name": "later", "creationTimestamp": "2020-01-01T00:00:00Z"}
    spec = {"namespaceSelector": selector, "resources": [GPUS | {"limit": 1}]}
    world.see(QUOTAS, {"metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"team": "a"}, "matchExpressions": [NEWER]},
        {"matchExpressions": [NEWER, {"key": "team", "operator": "In", "values": ["a"]}]},
    ],
    ids=["labels", "expressions"],
)
async def test_a_quota_limits_those_that_the_readable_part_of_its_selector_selects(
    silent: Client, selector: Json
) -> None:
    """It limited nobody."""
    world = cluster(8, "a", "b")
    later(world, selector)
    for team in "ab":
        for number in range(2):
            wait(world, team, f"{team}{number}", at=number)
    world.cycle(silent).once()
    assert world.places().keys() == {"a0", "b0", "b1"}


async def test_a_quota_whose_selector_is_read_goes_first(silent: Client) -> None:
    """The readable part may select too many namespaces, which have a quota of their own."""
    world = cluster(8, "a")
    later(world, {"matchLabels": {"team": "a"}, "matchExpressions": [NEWER]})
    quota(world, "a", limit=3)
    for number in range(4):
        wait(world, "a", f"a{number}", at=number)
    world.cycle(silent).once()
    assert len(world.places()) == 3


async def test_a_quota_of_whose_selector_nothing_is_read_limits_nobody(silent: Client) -> None:
    """It would otherwise limit the whole cluster."""
    world = cluster(8, "a")
    world.see(NAMESPACES, {"metadata": {"name": "b", "labels": {}}})
    later(world, {"matchExpressions": [NEWER]})
    for number in range(2):
        wait(world, "b", f"b{number}", at=number)
    world.cycle(silent).once()
    assert world.places().keys() == {"b0", "b1"}
