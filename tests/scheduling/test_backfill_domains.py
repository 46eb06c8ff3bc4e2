"""Devices are reserved for a group where all of it may start: in one domain of a label, and beside each other as its pods ask."""

from collections.abc import Mapping

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.runtime import MAX_RUNTIME
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.podgroups import member
from tests.scheduling.queued import fleet

ZONE = "topology.kubernetes.io/zone"
REQUIRED = {"apportion.dev/pod-group-topology": ZONE, "apportion.dev/pod-group-topology-mode": "Required"}
OWN = {"labelSelector": {"matchLabels": {"apportion.dev/pod-group": "g"}}, "topologyKey": ZONE}
TOGETHER = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OWN]}}}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [OWN]}}}
SPREAD = {"topologySpreadConstraints": [OWN | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}


def zones(nodes: Mapping[str, str], devices: int = 1) -> ObservedCluster:
    """Return nodes in these zones, with so many devices each."""
    world = fleet(dict.fromkeys(nodes, ("h100", devices)))
    for name, zone in nodes.items():
        world.node(name, cpu="64", **{ZONE: zone})
    world.policy(queue={"reserveAfter": "0s"})
    return world


def runs(world: ObservedCluster, name: str, node: str, *, runtime: str = "") -> None:
    """Let a pod have a node's device. `runtime`: what its annotation says."""
    world.allocate(world.claim(name), node, "gpu-0")
    raw = world.pod(name, name, spec={"nodeName": node})
    raw["metadata"]["annotations"] = {MAX_RUNTIME: runtime} if runtime else {}
    raw["status"] = {"phase": "Running", "startTime": world.time()}
    world.see(PODS, raw)


def ends(world: ObservedCluster, name: str) -> None:
    """Let a pod end, with its claim."""
    world.gone(PODS, world.seen[PODS, "team", name])
    world.gone_claim(name)


def group(
    world: ObservedCluster, pods: int = 2, *, said: Json | None = None, spec: Json | None = None
) -> None:
    """Let a group of pods with a device each wait."""
    for number in range(pods):
        world.claim(f"c{number}", request("gpu"))
        raw = member(world, f"p{number}", f"c{number}", said=said, least=str(pods))
        raw["spec"] |= spec or {}
        world.see(PODS, raw)


def later(world: ObservedCluster) -> None:
    """Let a pod wait that comes now."""
    world.claim("later", request("gpu"), creationTimestamp=world.time())
    raw = world.pod("later", "later")
    raw["metadata"]["creationTimestamp"] = world.time()
    world.see(PODS, raw)


def passes(world: ObservedCluster, cycle: Cycle) -> list[str]:
    """Make passes, 40 seconds apart; return the nodes on which devices are reserved."""
    for _ in range(3):
        world.clock.now += 40
        cycle.once()
    return sorted(node for each in cycle.reserved for node in each.plan.nodes)


async def test_a_group_waits_in_its_domain_and_others_have_the_rest(silent: Client) -> None:
    """A free device of another zone is of no use to it: who comes later gets that, and not the one that the group waits beside."""
    world = zones({"n1": "a", "n2": "b", "n3": "a"})
    runs(world, "runs", "n3")
    group(world, said=REQUIRED)
    cycle = world.cycle(silent)
    assert passes(world, cycle) == ["n1", "n3"]
    later(world)
    passes(world, cycle)
    assert world.places() == {"runs": "n3", "later": "n2"}
    ends(world, "runs")
    passes(world, cycle)
    assert {world.places()[name] for name in ("c0", "c1")} == {"n1", "n3"}


@pytest.mark.parametrize(("said", "spec"), [(REQUIRED, {}), ({}, TOGETHER)], ids=["domain", "affinity"])
async def test_a_group_waits_in_the_domain_where_all_of_it_fits_first(
    silent: Client, said: Json, spec: Json
) -> None:
    """Zone a has a device at once, but the other one at an unknown moment; in zone b both become free within ten minutes."""
    world = zones({"n1": "a", "n2": "a", "n3": "b", "n4": "b"})
    runs(world, "long", "n2")
    for name, node in (("short", "n3"), ("other", "n4")):
        runs(world, name, node, runtime="10m")
    group(world, said=said, spec=spec)
    assert passes(world, world.cycle(silent)) == ["n3", "n4"]


async def test_a_group_waits_beside_those_of_its_pods_that_run(silent: Client) -> None:
    """One of three runs in zone b: the two others have to start there, though zone a has devices for them sooner."""
    world = zones({"n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "b"})
    runs(world, "x", "n1")
    for name, node in (("y", "n3"), ("z", "n4")):
        runs(world, name, node)
    group(world, 3, said=REQUIRED)
    world.allocate(world.claim("c2", request("gpu")), "n5", "gpu-0")
    raw = member(world, "p2", "c2", said=REQUIRED, least="3", gates=())
    raw["spec"]["nodeName"] = "n5"
    world.see(PODS, raw)
    assert passes(world, world.cycle(silent)) == ["n3", "n4"]


@pytest.mark.parametrize(
    ("said", "spec", "zone"),
    [(REQUIRED, {}, "b"), ({}, TOGETHER, "b"), ({}, SPREAD, "a"), ({}, APART, "a")],
    ids=["domain", "affinity", "spread", "anti-affinity"],
)
async def test_nothing_is_reserved_where_the_pods_of_a_group_cannot_be_beside_each_other(
    silent: Client, said: Json, spec: Json, zone: str
) -> None:
    """Two nodes have a free device each, but their zones suit no two pods of it. It would wait for ever, and so would others."""
    world = zones({"n1": "a", "n2": zone})
    world.node("n3", cpu="64", **{ZONE: "c"})  # without devices: so zone a may have one pod more than it
    group(world, said=said, spec=spec)
    cycle = world.cycle(silent)
    assert passes(world, cycle) == []
    later(world)
    passes(world, cycle)
    assert world.places().keys() == {"later"}


@pytest.mark.parametrize(
    ("spec", "reserved"),
    [(TOGETHER, ["n1", "n2"]), (SPREAD, ["n1", "n3"]), (APART, ["n1", "n3"])],
    ids=["affinity", "spread", "anti-affinity"],
)
async def test_devices_are_reserved_where_the_pods_of_a_group_suit_each_other(
    silent: Client, spec: Json, reserved: list[str]
) -> None:
    """All nodes have a device at an unknown moment: of the zone with two nodes those get both that need company, and one those that are spread."""
    world = zones({"n1": "a", "n2": "a", "n3": "b"})
    for node in ("n1", "n2", "n3"):
        runs(world, f"on-{node}", node)
    group(world, spec=spec)
    cycle = world.cycle(silent)
    assert passes(world, cycle) == reserved
    candidates = cycle.decider.candidates
    assert [candidates.placed.place_of(pod) for pod in world.snapshot.pods.values()] == [None] * 5


@pytest.mark.parametrize(("said", "spec", "reserved"), [(REQUIRED, {}, 17), ({}, TOGETHER, 0)])
async def test_nothing_is_reserved_for_a_large_group_whose_pods_need_each_other(
    silent: Client, said: Json, spec: Json, reserved: int
) -> None:
    """All nodes would be looked at for each of its pods, each time that one of its nodes changes; a level that the group requires costs no such thing."""
    world = zones({f"n{number}": "a" for number in range(17)})
    for number in range(17):
        runs(world, f"on-{number}", f"n{number}")
    group(world, 17, said=said, spec=spec)
    assert len(passes(world, world.cycle(silent))) == reserved
