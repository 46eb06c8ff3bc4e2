"""A pod is bound by the allocation that its claim has, not by one that the claim had before."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.candidates.stillprepared import BINDING
from tests.observedcluster import ObservedCluster
from tests.scheduling.podgroups import opened

Json = dict[str, Any]


def world() -> ObservedCluster:
    """Two nodes with a device each."""
    made = ObservedCluster()
    made.device_class("gpu")
    for name in ("n1", "n2"):
        made.node(name)
        made.slice(name, f"s-{name}", {"devices": [{"name": "gpu-0"}]}, 1)
    return made


def user(pod: Json) -> Json:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


@pytest.mark.parametrize("how", ["gone", "Succeeded"])
def test_a_pod_keeps_its_gate_while_its_claim_is_reserved_for_pods_that_are_over(how: str) -> None:
    """controller-manager is about to deallocate the claim; kube-scheduler would bind the pod by what it has until then."""
    made = world()
    former = made.pod("former", "c", spec={"nodeName": "n1"})
    claim = made.allocate(made.claim("c"), "n1", "gpu-0", reservedFor=[user(former)])
    made.pod("next", "c", gates=[GATE])
    assert opened(made) == ["next"], "it may join a pod that runs"

    if how == "gone":
        made.gone(PODS, former)
    else:
        made.see(PODS, former | {"status": {"phase": how}})
    assert opened(made) == []

    claim["status"] = {}
    made.see(CLAIMS, claim)
    made.allocate(claim, "n2", "gpu-0")
    assert opened(made) == ["next"]


@pytest.mark.parametrize("ours", [False, True])
async def test_a_claim_that_lost_its_devices_waits_while_a_pod_may_be_bound_by_them(
    client: Client, *, ours: bool
) -> None:
    """kube-scheduler would reserve what the claim is given at once, and bind the pod to the former node all the same."""
    made = world()
    former = made.pod("former", "c", spec={"nodeName": "n1"})
    reserved = [] if ours else [user(former)]
    claim = made.allocate(made.claim("c"), "n1", "gpu-0", reservedFor=reserved)
    made.pod("next", "c")
    made.gone(PODS, former)
    if ours:
        made.snapshot.clearing(claim["metadata"]["uid"])
    claim["status"] = {}
    made.see(CLAIMS, claim)
    cycle = made.cycle(client)

    cycle.once()
    assert made.places() == {}
    made.clock.now += BINDING
    cycle.once()
    assert list(made.places()) == ["c"]


async def test_a_claim_that_lost_its_devices_is_served_at_once_behind_the_gate(client: Client) -> None:
    """kube-scheduler does not look at a pod that has a gate."""
    made = world()
    former = made.pod("former", "c", spec={"nodeName": "n1"})
    claim = made.allocate(made.claim("c"), "n1", "gpu-0", reservedFor=[user(former)])
    made.pod("next", "c", gates=[GATE])
    made.gone(PODS, former)
    claim["status"] = {}
    made.see(CLAIMS, claim)

    made.cycle(client).once()
    assert list(made.places()) == ["c"]
