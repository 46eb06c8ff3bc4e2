"""Pods of a group that must not be on one node are not sent to one, though none of them is there yet."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.groupmembership import MODE, TOPOLOGY
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.podgroups import member
from tests.scheduling.test_neighbours import APP, HOST, ZONE, neighbour, relation, zones

SPREAD = {"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
PORT = {"name": "main", "ports": [{"containerPort": 1, "hostPort": 29500}], "resources": {}}
APART = pytest.mark.parametrize(
    "spec",
    [relation("podAntiAffinity"), {"containers": [PORT]}, {"topologySpreadConstraints": [SPREAD]}],
    ids=["anti-affinity", "host port", "spread"],
)


def group(world: ObservedCluster, spec: Json, pods: int = 2, least: str = "2") -> None:
    """Add a group whose pods ask for something beside devices."""
    for number in range(pods):
        world.claim(f"c{number}")
        raw = member(world, f"p{number}", f"c{number}", least=least)
        raw["metadata"]["labels"]["app"] = "web"
        raw["spec"] |= spec
        world.see(PODS, raw)


def nodes(count: int) -> ObservedCluster:
    """Return nodes with two devices each."""
    world = zones(**{f"n{number}": f"z{number}" for number in range(count)})
    for number in range(count):
        content = {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
        world.slice(f"n{number}", f"n{number}-devices", content, 1)
    return world


@APART
async def test_each_pod_of_a_group_has_a_node_of_its_own(unanswered: Client, spec: Json) -> None:
    """kube-scheduler would bind the first one and take the devices of the other ones back."""
    world = nodes(3)
    group(world, spec, pods=3, least="3")
    world.cycle(unanswered).once()
    assert sorted(str(node) for node in world.places().values()) == ["n0", "n1", "n2"]


@pytest.mark.parametrize("spec", [relation("podAntiAffinity"), {"containers": [PORT]}])
async def test_a_group_gets_nothing_where_one_node_has_all_devices(unanswered: Client, spec: Json) -> None:
    """The first one would run, and hold its devices, without the other one for ever. Nothing is reserved for them there, and nothing of the try counts."""
    world = nodes(1)
    group(world, spec)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}

    world.claim("single")
    raw = world.pod("single", "single", spec=spec)
    raw["metadata"]["labels"] = {"app": "web"}
    world.see(PODS, raw)
    cycle.once()
    assert world.places() == {"single": "n0"}


async def test_pods_of_a_group_that_need_company_are_each_others(unanswered: Client) -> None:
    """All of them go to the zone of the first."""
    world = zones(n0="a", n1="b", n2="b")
    for name in ("n1", "n2"):
        world.slice(name, f"{name}-devices", {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}, 1)
    group(world, relation("podAffinity", ZONE))
    world.node("n0", cpu="0", **{"topology.kubernetes.io/zone": "a"})
    world.cycle(unanswered).once()
    assert {str(node) for node in world.places().values()} <= {"n1", "n2"}
    assert len(world.places()) == 2


@pytest.mark.parametrize("said", [None, {TOPOLOGY: ZONE, MODE: "Required"}], ids=["anywhere", "one zone"])
async def test_pods_that_need_the_company_of_a_later_pod_of_their_group_go_where_it_goes(
    unanswered: Client, said: dict[str, str] | None
) -> None:
    """Before it has a node none fits them; the group waited for ever, each pod for the others."""
    world = zones(n0="a", n1="b")
    for name in ("n0", "n1"):
        world.slice(name, f"{name}-devices", {"devices": [{"name": f"gpu-{n}"} for n in range(3)]}, 1)
    for number in range(3):
        world.claim(f"c{number}")
        raw = member(world, f"p{number}", f"c{number}", least="3", said=said)
        if number == 2:
            raw["metadata"]["labels"]["app"] = "web"
        else:
            raw["spec"] |= relation("podAffinity", ZONE)
        world.see(PODS, raw)
    world.cycle(unanswered).once()
    assert len(world.places()) == 3
    assert len(set(world.places().values())) == 1


@pytest.mark.parametrize("required", [False, True], ids=["anywhere", "one block"])
async def test_pods_that_have_to_be_spread_count_where_the_first_of_them_let_the_others_go(
    unanswered: Client, *, required: bool
) -> None:
    """At first only one zone is even enough; a block that has room in both is not too small for the group."""
    block = "example.com/block"
    said = {TOPOLOGY: block, MODE: "Required"} if required else None
    world = zones()
    for name, zone, devices in (("n0", "a", 2), ("n1", "b", 1)):
        world.node(name, cpu="64", **{ZONE: zone, block: "x"})
        world.slice(name, f"{name}-devices", {"devices": [{"name": f"gpu-{n}"} for n in range(devices)]}, 1)
    neighbour(world, "old", "n0")
    for number in range(2):
        world.claim(f"c{number}")
        raw = member(world, f"p{number}", f"c{number}", least="2", said=said)
        raw["metadata"]["labels"]["app"] = "web"
        raw["spec"] |= {"topologySpreadConstraints": [SPREAD | {"topologyKey": ZONE}]}
        world.see(PODS, raw)
    world.cycle(unanswered).once()
    assert sorted(str(node) for node in world.places().values()) == ["n0", "n1"]
