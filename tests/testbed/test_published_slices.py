"""Slices without an agent, and Partitions that are answered without agents."""

from typing import Any

from apportion.agent.slices.nodeinventory import SHARED
from apportion.agent.slices.shares import PublishedSharing
from apportion.api.policy import SharingStrategy
from apportion.cluster.kinds import NODES, PARTITIONS, SLICES
from testbed.api import Api, Json
from testbed.beside import beside
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import Installation, SimulatedNode, install
from testbed.partitionresponder import PartitionResponder
from testbed.publishedslices import published_slices

SIMULATION: Json = {
    "cards": [{"model": "H100-80GB", "count": 2}, {"model": "910B4", "count": 1}],
    "nics": [{"name": "mlx5-0", "pcieRoot": "pci0000:10"}],
}


def bare(item: Json) -> Json:
    """Return what the publisher wrote, without what the server added."""
    spec = dict(item["spec"])
    if "devices" in spec:
        spec["devices"] = [
            device
            | {
                "taints": [
                    {key: value for key, value in taint.items() if key != "timeAdded"}
                    for taint in device["taints"]
                ]
            }
            for device in spec["devices"]
        ]
    return {
        "name": item["metadata"]["name"],
        "owners": item["metadata"]["ownerReferences"],
        "spec": spec,
    }


async def test_they_are_what_a_running_agent_publishes(control_plane: ControlPlane) -> None:
    """Name, owner, pool, devices, counters and taints are equal; only without the guard the taint is missing."""
    node = "published-a"
    async with Installation(control_plane, [SimulatedNode(node, SIMULATION)], operators=0):
        uid = (await control_plane.api.get(NODES.path(node)))["metadata"]["uid"]
        made = {item["name"]: item for item in map(bare, published_slices(SIMULATION, node, uid))}

        async def live() -> dict[str, Any]:
            items, _ = await control_plane.api.items(SLICES.path(), fieldSelector=f"spec.nodeName={node}")
            return {item["name"]: item for item in map(bare, items)}

        assert await eventually(live, lambda found: found.keys() == made.keys()) == made
    open_to_all = published_slices(SIMULATION, node, uid, guard=False)
    assert {item["metadata"]["name"] for item in open_to_all} == made.keys()
    assert not [d for item in open_to_all for d in item["spec"].get("devices", ()) if "taints" in d]


def test_gpus_that_are_shared_serve_several_claims() -> None:
    """Each whole GPU has memory and a number of shares to give; its partitions have the taint that keeps claims off them."""
    sharing = PublishedSharing(SharingStrategy.TIME_SLICING, 7)
    items = published_slices(SIMULATION, "n", "u", sharing=sharing)
    devices = [device for item in items for device in item["spec"].get("devices", ())]
    gpus = [device for device in devices if device["attributes"]["type"] == {"string": "gpu"}]
    assert gpus
    for gpu in gpus:
        assert gpu["allowMultipleAllocations"]
        assert gpu["capacity"]["shares"]["value"] == "7"
    parts = [device for device in devices if device["attributes"]["type"] == {"string": "mig"}]
    assert parts
    assert all(SHARED.key in {taint["key"] for taint in part["taints"]} for part in parts)


def partition(name: str) -> Json:
    """Return a Partition that is kept warm."""
    return {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "Partition",
        "metadata": {"name": name, "finalizers": ["apportion.dev/agent"]},
        "spec": {
            "nodeName": "n",
            "driver": "gpu.apportion.dev",
            "pool": "n",
            "device": "gpu-0-mig-1g10gb-19-0",
            "parent": "gpu-0",
            "profile": "1g.10gb",
            "placement": {"start": 0, "size": 1},
            "origin": "Warm",
        },
    }


async def test_partitions_are_answered_and_let_go(control_plane: ControlPlane) -> None:
    """A new Partition becomes Idle, one that is given a holder Ready, and a deleted one goes."""
    await install(control_plane)
    api, path = control_plane.api, PARTITIONS.path("responded")
    async with Api.of(control_plane.kubeconfig) as own, beside(PartitionResponder(own).run()):
        made = await api.create(PARTITIONS.path(), partition("responded"))

        async def phase() -> str | None:
            found = await api.find(path)
            return None if found is None else found.get("status", {}).get("phase", "")

        await eventually(phase, lambda now: now == "Idle")
        holder = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "u"}
        await api.patch(path, {"spec": {"holder": holder}})
        await eventually(phase, lambda now: now == "Ready")
        found = await api.get(path)
        assert found["status"]["uuid"].startswith("MIG-")
        assert (
            found["status"]["observedGeneration"]
            == found["metadata"]["generation"]
            > made["metadata"]["generation"]
        )
        await api.delete(path)
        await eventually(phase, lambda now: now is None)
