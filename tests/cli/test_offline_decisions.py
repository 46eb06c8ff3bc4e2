"""A snapshot answers as the operator does: for 400 random claims `fit` decides offline as a live cycle decides when they come."""

import json
import random
from typing import Any

import pytest

from apportion.cli.answers.copies import Copies, copies_of
from apportion.cli.answers.fitting import Fitting
from apportion.cli.world.needed import needed
from apportion.cli.world.objects import kind_of
from apportion.cli.world.world import World
from apportion.cluster import kinds
from apportion.cluster.client import Client
from tests.cli.worlds import Cluster, allocate_what_is_assumed, drawn_cluster, drawn_request
from tests.clients import unanswered

__all__ = ["unanswered"]

CLAIMS = 400
IN_ONE_CLUSTER = 20
"""Claims that come one after the other; what is served stays until one was refused, then two end."""
WAITING = 2
"""Claims that wait beside it."""
Place = list[str]
"""The devices; empty: none."""


@pytest.mark.slow
async def test_a_snapshot_decides_as_the_operator_does(unanswered: Client) -> None:
    """Served or refused alike, with the same devices of the same node, beside what already waits, each time in the cluster as it is then."""
    decided = refused = 0
    for seed in range(CLAIMS // IN_ONE_CLUSTER):
        rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
        cluster = drawn_cluster(rng)
        cluster.cycle(unanswered).once()
        allocate_what_is_assumed(cluster)
        _drop_what_waits(cluster, but=WAITING)
        for number in range(IN_ONE_CLUSTER):
            copies, shared = copies_of(_drawn(rng, f"d{number}"), "team")
            taken = [needed(each) for each in json.loads(json.dumps(cluster.as_list()))["items"]]
            offline = _offline(World(taken), copies[0], shared)

            live = cluster.anew()
            operator = live.cycle(unanswered)
            operator.once()
            name = _arrives(live, copies[0])
            operator.once()
            assert offline == _devices(live, name), (seed, number)
            decided += 1
            refused += not offline
            if offline:
                allocate_what_is_assumed(live)
                cluster = live
            else:
                _end_some(cluster, rng)
                # What waits has the room first.
                cluster = cluster.anew()
                cluster.cycle(unanswered).once()
                allocate_what_is_assumed(cluster)
    assert decided == CLAIMS
    assert CLAIMS // 5 < refused < CLAIMS * 4 // 5


def _drop_what_waits(cluster: Cluster, but: int) -> None:
    """Take away the claims without devices, and their pods, but for the first."""
    waiting = sorted(claim.name for claim in cluster.snapshot.claims.values() if claim.allocation is None)
    for name in waiting[but:]:
        for kind in (kinds.PODS, kinds.CLAIMS):
            cluster.gone(kind, cluster.objects.pop((kind.name, "team", name)))


def _end_some(cluster: Cluster, rng: random.Random) -> None:
    """Let two that have devices end."""
    held = sorted(claim.name for claim in cluster.snapshot.claims.values() if claim.allocation is not None)
    for name in rng.sample(held, min(2, len(held))):
        pods = [
            raw
            for raw in [*cluster.objects.values()]
            if raw["kind"] == "Pod" and name in str(raw["spec"]["resourceClaims"])
        ]
        for kind, raw in (
            *((kinds.PODS, pod) for pod in pods),
            (kinds.CLAIMS, cluster.objects["ResourceClaim", "team", name]),
        ):
            del cluster.objects[kind.name, "team", raw["metadata"]["name"]]
            cluster.gone(kind, raw)


def _drawn(rng: random.Random, name: str) -> list[dict[str, Any]]:
    """Draw a template of a claim, and a workload with one pod that has such a claim."""
    metadata = {"name": name, "namespace": "team"}
    claim = {"devices": {"requests": [drawn_request(rng)]}}
    pod: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": rng.choice(["1", "4"])}}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
    }
    if rng.random() < 0.2:
        pod["nodeSelector"] = {"zone": rng.choice("ab")}
    workload = {"replicas": 1, "template": {"spec": pod}}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": metadata,
            "spec": {"spec": claim},
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": workload},
    ]


def _offline(world: World, copies: Copies, shared: Any) -> Place:
    """Return the devices that `fit` gives."""
    found = Fitting(world, shared).place(copies, 1, further=False)
    return [device for *_, device in found.devices]


def _arrives(cluster: Cluster, copies: Copies) -> str:
    """Show the pod and its claim; returns the claim's name."""
    name = ""
    for raw in copies.make(1):
        kind = kind_of(raw)
        assert kind is not None
        cluster.see(kind, dict(raw))
        if kind == kinds.CLAIMS:
            name = raw["metadata"]["name"]
    return name


def _devices(cluster: Cluster, name: str) -> Place:
    """Return the devices that the cycle gave to a claim."""
    claim = cluster.snapshot.claim("team", name)
    assert claim is not None
    allocation = cluster.snapshot.allocation(claim)
    return [] if allocation is None else [str(result.device) for result in allocation.results]
