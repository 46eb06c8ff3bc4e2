"""Pods go where their volumes can be used, without asking kube-scheduler node by node."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from apportion.dra.selection import NodeSelector
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.scheduling.volumes import ZONE, storage_class, volume, volume_claim, with_volume, zones


def place(world: ObservedCluster, client: Client) -> str | None:
    """Return the node that one pass chooses for a pod with the volume `data`."""
    world.wait_for("c", request("gpu"), spec=with_volume())
    world.cycle(client).once()
    return world.places().get("c")


@pytest.mark.parametrize("zone", ["a", "b"])
async def test_a_bound_volume_says_where_its_pod_can_run(unanswered: Client, zone: str) -> None:
    """By the node affinity of the PersistentVolume."""
    world = zones(n1="a", n2="b")
    volume(world, zone)
    volume_claim(world, "pv")
    assert place(world, unanswered) == {"a": "n1", "b": "n2"}[zone]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({ZONE: "b"}, {"n2"}),
        ({"failure-domain.beta.kubernetes.io/zone": "b"}, {"n2"}),
        ({ZONE: "b__c"}, {"n2", "n3"}),
        ({ZONE: "d"}, {None}),
        ({ZONE: "b__"}, {"n1", "n2", "n3"}),
        ({"topology.kubernetes.io/region": "r"}, {None}),
    ],
)
async def test_a_bound_volume_is_reached_in_the_zones_of_its_labels(
    unanswered: Client, labels: Json, found: set[str | None]
) -> None:
    """Old volumes have no node affinity; kube-scheduler goes by their labels (VolumeZone), and would refuse the node."""
    world = zones(n1="a", n2="b", n3="c")
    storage_class(world)
    volume_claim(world, volume="pv")
    spec = {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}
    claim = {"namespace": "team", "name": "data"}
    raw = {"metadata": {"name": "pv", "labels": labels}, "spec": spec | {"claimRef": claim}}
    world.see(VOLUMES, raw | {"status": {"phase": "Bound"}})
    assert place(world, unanswered) in found


async def test_a_node_without_topology_labels_is_in_every_zone(unanswered: Client) -> None:
    """A cluster of one zone."""
    world = fleet({"n1": ("h100", 1)})
    world.snapshot.volumes.complete = True
    storage_class(world)
    volume_claim(world, volume="pv")
    spec = {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}
    world.see(VOLUMES, {"metadata": {"name": "pv", "labels": {ZONE: "b"}}, "spec": spec, "status": {}})
    assert place(world, unanswered) == "n1"


async def test_a_pod_whose_volume_claim_does_not_exist_gets_nothing_until_it_does(unanswered: Client) -> None:
    """kube-scheduler would never bind it; its users read the name that they mistyped."""
    world = zones(n1="a")
    storage_class(world)
    world.wait_for("c", request("gpu"), spec=with_volume())
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    assert ("c", "ClaimsNotAllocated") in world.warned
    volume_claim(world)
    cycle.once()
    assert world.places() == {"c": "n1"}


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["a", "b"])
async def test_a_volume_that_is_still_to_be_made_goes_where_its_class_allows(
    unanswered: Client, zone: str
) -> None:
    """`allowedTopologies` of a class that waits for the first consumer."""
    world = zones(n1="a", n2="b")
    storage_class(world, zone)
    volume_claim(world)
    assert place(world, unanswered) == {"a": "n1", "b": "n2"}[zone]


async def test_a_volume_that_is_being_made_for_a_node_ties_the_pod_to_it(unanswered: Client) -> None:
    """kube-scheduler has chosen it before."""
    world = zones(n1="a", n2="b", n3="b")
    storage_class(world)
    volume_claim(world, annotations={"volume.kubernetes.io/selected-node": "n2"})
    assert place(world, unanswered) == "n2"


@pytest.mark.slow
async def test_a_volume_that_waits_for_nobody_is_waited_for(unanswered: Client) -> None:
    """It is made before the pod has a node, and says then where the pod can run."""
    world = zones(n1="a")
    storage_class(world, mode="Immediate")
    volume_claim(world)
    assert place(world, unanswered) is None


@pytest.mark.parametrize(
    ("unsuited", "chosen"),
    [
        ({"zone": "a", "size": "5Gi"}, "n2"),
        ({"zone": "a", "accessModes": ["ReadOnlyMany"]}, "n2"),
        ({"zone": "a", "claimRef": {"namespace": "team", "name": "other"}}, "n2"),
        ({"zone": "a", "storageClassName": "others"}, "n2"),
        ({"zone": "a", "claimRef": {"namespace": "team", "name": "data"}}, "n1"),
        ({"zone": "a", "claimRef": {"namespace": "team", "name": "data", "uid": "gone"}}, "n2"),
        ({"zone": "a", "claimRef": {"namespace": "team", "name": "data", "uid": "its-own"}}, "n1"),
    ],
    ids=["small", "mode", "another's", "class", "kept for it", "left by a former one", "bound to it"],
)
async def test_of_volumes_that_nobody_makes_a_fitting_one_has_to_be_there(
    unanswered: Client, unsuited: Json, chosen: str
) -> None:
    """Local disks: `kubernetes.io/no-provisioner`."""
    world = zones(n1="a", n2="b", n3="c")
    storage_class(world, provisioner="kubernetes.io/no-provisioner")
    volume_claim(world, uid="its-own")
    volume(world, name="first", **unsuited)
    volume(world, "b", name="second")
    assert place(world, unanswered) == chosen


async def test_an_ephemeral_volume_is_found_by_the_name_of_its_claim_once_that_is_its_pods(
    unanswered: Client,
) -> None:
    """Pod and volume name it. One of a former pod of the same name goes first; kube-scheduler refuses every node until then."""
    world = zones(n1="a", n2="b")
    volume(world, "a", name="former")
    volume(world, "b")
    spec = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}
    world.claim("c", request("gpu"))
    pod = world.pod("c", "c", spec=spec)
    owner = {"kind": "Pod", "name": "c", "controller": True}
    volume_claim(world, "former", name="c-scratch", uid="u1", ownerReferences=[owner | {"uid": "former"}])
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    own = owner | {"uid": pod["metadata"]["uid"]}
    volume_claim(world, "pv", name="c-scratch", uid="u2", ownerReferences=[own])
    cycle.once()
    assert world.places() == {"c": "n2"}


async def test_a_pod_whose_volume_is_gone_for_good_gets_nothing(unanswered: Client) -> None:
    """kube-scheduler refuses it as long as its claim is Lost."""
    world = zones(n1="a")
    volume(world, "a")
    claim = volume_claim(world, "pv")
    world.see(VOLUME_CLAIMS, claim | {"status": {"phase": "Lost"}})
    assert place(world, unanswered) is None


async def test_where_volumes_may_not_be_read_pods_are_served_all_the_same(unanswered: Client) -> None:
    """kube-scheduler then refuses nodes, as before."""
    world = zones(n1="a")
    world.snapshot.volumes.complete = False
    assert place(world, unanswered) == "n1"


async def test_a_volume_stays_kept_for_a_claim_when_one_goes_that_was_kept_for_it_too(
    unanswered: Client,
) -> None:
    """In whatever order they were seen."""
    world = zones(n1="a", n2="b")
    storage_class(world, provisioner="kubernetes.io/no-provisioner")
    volume_claim(world)
    kept: Json = {"claimRef": {"namespace": "team", "name": "data"}}
    volume(world, "b", name="first", **kept)
    second = volume(world, "a", name="second", **kept)
    world.gone(VOLUMES, second)
    assert place(world, unanswered) == "n2"


async def test_volumes_of_one_node_affinity_are_compared_with_a_node_once(unanswered: Client) -> None:
    """Twenty of one claim, and one each of twenty others."""
    nodes, volumes = 50, 20
    world = zones(**{f"n{number}": "a" for number in range(nodes)})
    spec: Json = {"volumes": []}
    for number in range(volumes):
        volume(world, "a", name=f"pv-{number}")
        volume_claim(world, f"pv-{number}", name=f"data-{number}")
        spec["volumes"] += with_volume("data-0")["volumes"] + with_volume(f"data-{number}")["volumes"]
    cycle = served_before(world, unanswered)
    world.wait_for("c", request("gpu"), spec=spec)
    assert longest_step(cycle, only=NodeSelector.matches) < 10 * nodes
    assert "c" in world.places()


async def test_what_a_class_allows_is_compared_with_a_node_once(unanswered: Client) -> None:
    """However many claims of it wait for their volumes, and how large each is; of several pods, too."""
    nodes, volumes = 50, 20
    world = zones(**{f"n{number}": "a" for number in range(nodes)})
    storage_class(world, "a")
    cycle = served_before(world, unanswered)
    world.claim("c", request("gpu"))
    for pod in range(4):
        names = [f"data-{pod}-{number}" for number in range(volumes)]
        for number, name in enumerate(names):
            asked = {"resources": {"requests": {"storage": f"{volumes * pod + number + 1}Gi"}}}
            volume_claim(world, name=name, asked=asked)
        world.pod(
            f"p{pod}",
            "c",
            spec={"volumes": [each for name in names for each in with_volume(name)["volumes"]]},
        )
    assert longest_step(cycle, only=NodeSelector.matches) < 3 * nodes
    assert "c" in world.places()


async def test_each_claim_of_a_pod_needs_what_its_own_class_allows(unanswered: Client) -> None:
    """One of them is made in another zone alone."""
    world = zones(n1="a", n2="b")
    storage_class(world)
    volume_claim(world)
    raw = storage_class(world, "b")
    storage_class(world)
    world.see(STORAGE_CLASSES, raw | {"metadata": {"name": "others"}})
    volume_claim(world, name="more", asked={"storageClassName": "others"})
    spec = {"volumes": with_volume()["volumes"] + with_volume("more")["volumes"]}
    world.wait_for("c", request("gpu"), spec=spec)
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n2"}
