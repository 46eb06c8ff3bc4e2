"""Volumes that are there already: to which of them a claim that waits for its pod may be bound (`volume.FindMatchingVolume`)."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.dra.selection import NodeSelector
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.volumes import storage_class, volume, volume_claim, with_volume, zones

OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
KEPT: Json = {"claimRef": {"namespace": "team", "name": "data"}}


def local_disks() -> ObservedCluster:
    """Return nodes in two zones, and a class of volumes that nobody makes."""
    world = zones(n1="a", n2="b")
    storage_class(world, provisioner="kubernetes.io/no-provisioner")
    return world


def place(world: ObservedCluster, client: Client, *more: str) -> str | None:
    """Return the node that one pass chooses for a pod with the volume `data`, and `more`."""
    spec = with_volume()
    spec["volumes"] += [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in more]
    world.wait_for("c", request("gpu"), spec=spec)
    world.cycle(client).once()
    return world.places().get("c")


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        pytest.param({"selector": {"matchLabels": {"tier": "fast"}}}, {}, id="without the label"),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["slow"]}]}},
            {"metadata": {"labels": {"tier": "slow"}}},
            id="another label",
        ),
        pytest.param({"volumeMode": "Block"}, {"volumeMode": "Filesystem"}, id="a file system"),
        pytest.param({}, {"volumeMode": "Block"}, id="a block device"),
        pytest.param({"volumeAttributesClassName": "gold"}, {}, id="without the attributes"),
        pytest.param({}, {"phase": "Released"}, id="not cleaned"),
        pytest.param({}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="deleted"),
        pytest.param({}, {"metadata": {"annotations": {OLD_CLASS: "others"}}}, id="another class"),
        pytest.param({}, KEPT | {"size": "5Gi"}, id="kept for it and too small"),
        pytest.param({}, KEPT | {"volumeMode": "Block"}, id="kept for it and a block device"),
        pytest.param({}, KEPT | {"storageClassName": "others"}, id="kept for it, of another class"),
    ],
)
async def test_a_claim_is_not_placed_beside_a_volume_that_it_cannot_have(
    unanswered: Client, asked: Json, first: dict[str, Any]
) -> None:
    """kube-scheduler would refuse the node again and again, and the devices were lost with each try."""
    world = local_disks()
    volume_claim(world, asked=asked)
    volume(world, "a", name="first", **first)
    assert place(world, unanswered) is None
    more: dict[str, Any] = {"metadata": {"labels": {"tier": "fast"}}}
    more |= {key: value for key, value in asked.items() if key != "selector"}
    volume(world, "b", name="second", **more)
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n2"}


@pytest.mark.parametrize("named", ["", "others"])
async def test_the_class_in_the_annotation_counts(unanswered: Client, named: str) -> None:
    """Of objects that were made for Kubernetes 1.5; the API server keeps both forms."""
    world = local_disks()
    volume_claim(world, asked={"storageClassName": named}, annotations={OLD_CLASS: "disks"})
    volume(world, "b", storageClassName=named, metadata={"annotations": {OLD_CLASS: "disks"}})
    assert place(world, unanswered) == "n2"


async def test_a_claim_that_names_its_volume_waits_until_it_is_bound(unanswered: Client) -> None:
    """The controller binds it without a pod; kube-scheduler waits for that whatever the class says."""
    world = local_disks()
    volume_claim(world, asked={"volumeName": "pv"})
    volume(world, "a")
    assert place(world, unanswered) is None


async def test_two_claims_of_a_pod_do_not_count_on_one_volume(unanswered: Client) -> None:
    """Zone a has one volume, zone b has two; the larger claim needs the larger one."""
    world = local_disks()
    volume_claim(world)
    volume_claim(world, name="logs", asked={"resources": {"requests": {"storage": "5Gi"}}})
    volume(world, "a", name="only")
    volume(world, "b", name="large", size="20Gi")
    assert place(world, unanswered, "logs") is None
    volume(world, "b", name="small", size="5Gi")
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n2"}


async def test_where_no_volume_fits_one_is_made(unanswered: Client) -> None:
    """A class that provisions needs none of those that are there, also where one is kept elsewhere."""
    world = zones(n1="a", n2="b")
    storage_class(world, "b")
    volume_claim(world)
    volume(world, "a", name="first", phase="Released")
    assert place(world, unanswered) == "n2"


async def test_a_node_is_compared_with_its_own_volumes_alone(unanswered: Client) -> None:
    """Four disks on each of a hundred nodes; the label that a provisioner of local volumes writes stands for the host."""
    nodes = 100
    world = zones(**{f"n{number}": f"host-{number}" for number in range(nodes)})
    storage_class(world, provisioner="kubernetes.io/no-provisioner")
    for number in range(4 * nodes):
        volume(world, f"host-{number % nodes}", name=f"pv-{number:03d}")
    cycle = served_before(world, unanswered)
    for number in range(2):
        volume_claim(world, name=f"data-{number}")
        world.claim(f"c{number}", request("gpu"))
        world.pod(f"p{number}", f"c{number}", spec=with_volume(f"data-{number}"))
        assert longest_step(cycle, only=NodeSelector.matches) < 10 * nodes
        assert f"c{number}" in world.places()
