"""A pod gets devices where only pods of lower priority keep it off the node: kube-scheduler preempts them."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.queued import fleet


def _world(*, beside: int = 0, nodes: int = 1) -> ObservedCluster:
    """Return nodes with two devices each, on which pods without devices of this priority use 60 of 64 cores."""
    world = fleet({f"n{number}": ("h100", 2) for number in range(nodes)})
    for number in range(nodes):
        _cpu_only(world, f"cpu-{number}", f"n{number}", beside)
    return world


def _cpu_only(world: ObservedCluster, name: str, node: str, priority: int) -> None:
    world.pod(name, spec={"nodeName": node, "priority": priority, "containers": [_container("60")]})


def _container(cpu: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}}


def _comes(world: ObservedCluster, name: str, **spec: Any) -> None:
    world.claim(name, request("gpu"))
    world.pod(name, name, gates=(GATE,), spec={"containers": [_container("8")], **spec})


async def test_a_pod_of_high_priority_gets_devices_on_a_node_full_of_pods_of_lower_priority(
    unanswered: Client,
) -> None:
    """load.md 9: "too little cpu", and kube-scheduler never saw the pod, so that it could preempt nobody for it."""
    world = _world()
    _comes(world, "urgent", priority=1000)
    world.cycle(unanswered).once()
    assert world.places() == {"urgent": "n0"}


async def test_a_pod_waits_where_pods_of_its_own_priority_keep_it_off_the_node(unanswered: Client) -> None:
    """Nobody would go for it."""
    world = _world(beside=1000)
    _comes(world, "equal", priority=1000)
    world.cycle(unanswered).once()
    assert world.places() == {}
    assert ("equal", "ClaimsNotAllocated") in world.warned


async def test_a_pod_that_preempts_nobody_waits(unanswered: Client) -> None:
    """Its PriorityClass says preemptionPolicy Never. One of equal shape that preempts does not wait with it."""
    world = _world()
    _comes(world, "patient", priority=1000, preemptionPolicy="Never")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    _comes(world, "urgent", priority=1000)
    cycle.once()
    assert world.places() == {"urgent": "n0"}


async def test_a_pod_of_equal_shape_and_lower_priority_waits_and_the_higher_one_does_not_with_it(
    unanswered: Client,
) -> None:
    """What the lower one was refused for is no refusal of the higher one."""
    world = _world(beside=5)
    _comes(world, "lower", priority=1)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    _comes(world, "higher", priority=9)
    cycle.once()
    assert world.places() == {"higher": "n0"}


async def test_a_node_on_which_nobody_has_to_go_is_preferred(unanswered: Client) -> None:
    """Even if others would be chosen for their devices."""
    world = _world(nodes=3)
    world.node("free", cpu="64")
    devices = [{"name": "gpu-0", "attributes": {"model": {"string": "h100"}}}]
    world.slice("free", "free-devices", {"devices": devices}, 1)
    _comes(world, "first", priority=1000)
    _comes(world, "second", priority=1000)
    world.cycle(unanswered).once()
    places = world.places()
    assert "free" in places.values()
    assert len(places) == 2


@pytest.mark.slow
async def test_pods_of_lower_priority_that_are_not_enough_are_not_counted(unanswered: Client) -> None:
    """Most of the cpu is used by pods that stay."""
    world = fleet({"n0": ("h100", 2)})
    _cpu_only(world, "stays", "n0", 1000)
    world.pod("goes", spec={"nodeName": "n0", "containers": [_container("2")]})
    _comes(world, "urgent", priority=1000)
    world.cycle(unanswered).once()
    assert world.places() == {}


PORT: dict[str, Any] = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
WEB = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
SPREAD = WEB | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def _shunning(key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [WEB | {"topologyKey": key}]}
    return {"affinity": {"podAntiAffinity": required}}


def _two_nodes() -> ObservedCluster:
    """Return a node with devices, and one without any, both of one zone."""
    world = fleet({"n0": ("h100", 2)})
    for name in ("n0", "bare"):
        world.node(name, cpu="64", **{"kubernetes.io/hostname": name, "zone": "a"})
    return world


def _web(world: ObservedCluster, node: str, **spec: Any) -> None:
    pod = world.pod("web", spec={"nodeName": node, **spec})
    pod["metadata"]["labels"] = {"app": "web"}
    world.see(PODS, pod)


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ({"containers": [PORT]}, {"containers": [PORT]}),
        ({}, _shunning()),
        (_shunning(), {}),
        ({}, _shunning("zone")),
        ({}, {"topologySpreadConstraints": [SPREAD]}),
    ],
    ids=["host port", "shunned", "shunning", "zone", "spread"],
)
async def test_a_neighbour_of_lower_priority_keeps_nobody_off_its_node(
    there: dict[str, Any], asked: dict[str, Any], unanswered: Client
) -> None:
    """kube-scheduler preempts it for a host port, required anti-affinity and hard spread too; the pod waited for ever."""
    for priority, node in ((0, "n0"), (1000, None)):
        world = _two_nodes()
        _web(world, "n0", priority=priority, **there)
        world.claim("urgent", request("gpu"))
        pod = world.pod("urgent", "urgent", gates=(GATE,), spec={"priority": 1000, **asked})
        pod["metadata"]["labels"] = {"app": "web"}
        world.see(PODS, pod)
        world.cycle(unanswered).once()
        assert world.places().get("urgent") == node


async def test_a_neighbour_on_another_node_stays(unanswered: Client) -> None:
    """kube-scheduler preempts pods of the node where the pod goes, not others of the zone that the pod shuns."""
    world = _two_nodes()
    _web(world, "bare")
    _comes(world, "urgent", priority=1000, **_shunning("zone"))
    world.cycle(unanswered).once()
    assert world.places() == {}
