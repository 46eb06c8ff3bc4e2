"""The agent against a real API server: slices, partitions, prepare and unprepare, as kubelet and operator see them."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from apportion.agent.proto import dra_v1beta1_pb2
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.kubelet import FakeKubelet, PodRecord
from testbed.node import NodeShape
from tests.agent.simulated_node import NPU, RDMA, SLICES, Json, SimulatedNode, holder

MakeNode = Callable[..., AbstractAsyncContextManager[SimulatedNode]]
H100 = {"model": "H100-80GB"}


async def test_a_node_publishes_all_its_pools(make_node: MakeNode) -> None:
    """Three drivers, each with a whole pool; the server takes every slice as it is written."""
    async with (
        make_node(
            cards=[H100 | {"count": 8}, {"model": "310P", "count": 9}],
            nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:10", "numaNode": 0}],
        ) as node,
        node.agent(),
    ):
        found = await eventually(node.slices, lambda slices: len(slices) == 9 + 11 + 1)
        for driver in node.drivers():
            pools = {
                (s["spec"]["pool"]["generation"], s["spec"]["pool"]["resourceSliceCount"])
                for s in found
                if s["spec"]["driver"] == driver
            }
            assert pools == {(1, len([s for s in found if s["spec"]["driver"] == driver]))}
        owner = found[0]["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", node.name, True)
        assert len(await node.devices()) == 8 * 26
        assert set(await node.devices(RDMA)) == {"nic-mlx5-0"}


async def test_slices_that_did_not_change_are_not_written_again(make_node: MakeNode) -> None:
    """What the server stores compares equal to what we want, taint times and canonical quantities included."""
    async with make_node(cards=[H100 | {"count": 2}, {"model": "910B4"}]) as node:
        async with node.agent():
            before = await eventually(node.slices, lambda slices: len(slices) == 5)
        async with node.agent():
            await node.registered()
            after = await node.slices()
            versions = [[s["metadata"]["resourceVersion"] for s in look] for look in (before, after)]
            assert versions[0] == versions[1]


async def test_wiped_slices_are_back_within_two_seconds(make_node: MakeNode) -> None:
    """Kubelet wipes them at its own start; the new ones have a newer generation."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent():
        for item in await eventually(node.slices, lambda slices: len(slices) == 3):
            await node.api.delete(f"{SLICES}/{item['metadata']['name']}")
        back = await eventually(node.slices, lambda slices: len(slices) == 3, within=2)
        assert {s["spec"]["pool"]["generation"] > 1 for s in back} == {True}


async def test_a_partition_lives_from_object_to_hardware_and_back(
    make_node: MakeNode, namespace: str
) -> None:
    """Cut, prepared, unprepared, idle, reused, removed: at each point object, hardware and CDI folder agree."""
    device = "gpu-0-mig-1g10gb-19-3"
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent():
        claim = await node.claim(namespace, "first", device)
        uid = claim["metadata"]["uid"]
        await node.partition(device, "1g.10gb", holder=holder(claim), placement={"start": 3, "size": 1})
        ready = await node.phase(device, "Ready")
        (live,) = node.hardware()
        assert (live["card"], live["profile"], live["start"]) == ("gpu-0", "1g.10gb", 3)
        assert ready["status"]["uuid"] == live["uuid"]
        assert ready["status"]["instance"] == live["instance"]

        answer = (await node.prepare(claim))[uid]
        assert answer.error == ""
        assert [(d.pool_name, d.device_name, list(d.request_names)) for d in answer.devices] == [
            (node.name, device, ["r0"])
        ]
        (cdi,) = node.cdi().values()
        assert list(answer.devices[0].cdi_device_ids) == [f"{cdi['kind']}={cdi['devices'][0]['name']}"]
        environment = cdi["containerEdits"]["env"] + cdi["devices"][0]["containerEdits"]["env"]
        assert f"APPORTION_DEVICES={device}" in environment
        assert f"APPORTION_PARTITION_UUID={live['uuid']}" in environment
        assert f"APPORTION_R0={device}" in environment
        assert "NVIDIA_VISIBLE_DEVICES=void" in environment
        await eventually(lambda: node.see(device), lambda p: p["status"].get("preparedBy") == [uid])

        assert await node.unprepare(claim) == {uid: ""}
        assert node.cdi() == {}
        path = f"/apis/apportion.dev/v1alpha1/partitions/{node.name}-{device}"
        await node.api.patch(path, {"spec": {"holder": None}})
        idle = await node.phase(device, "Idle")
        assert "preparedBy" not in idle["status"]
        await node.api.patch(path, {"spec": {"holder": holder(claim)}})
        assert (await node.phase(device, "Ready"))["status"]["uuid"] == live["uuid"]

        await node.remove(device)
        await eventually(lambda: node.see(device), lambda item: item == {})
        assert node.hardware() == []


async def test_a_vnpu_gets_an_id_of_its_chip(make_node: MakeNode, namespace: str) -> None:
    """The copy number is the slice's; the id is the driver's, chosen by us from the chip's range."""
    async with make_node(cards=[{"model": "910B4", "count": 2}]) as node, node.agent():
        claim = await node.claim(namespace, "vnpu", "npu-1-vir05-1c-8g-2", driver=NPU)
        await node.partition("npu-1-vir05-1c-8g-2", "vir05_1c_8g", holder=holder(claim), driver=NPU)
        ready = await node.phase("npu-1-vir05-1c-8g-2", "Ready")
        assert ready["status"]["instance"] == {"vnpu": "116"}
        answer = (await node.prepare(claim, driver=NPU))[claim["metadata"]["uid"]]
        assert answer.error == ""
        (cdi,) = node.cdi().values()
        assert "ASCEND_VISIBLE_DEVICES=void" in cdi["devices"][0]["containerEdits"]["env"]


async def test_prepare_waits_for_the_cut(make_node: MakeNode, namespace: str) -> None:
    """The pod may be faster than the driver; the call returns when the partition is there."""
    device = "gpu-0-mig-2g20gb-14-0"
    async with make_node(cards=[H100], faults={"createDelay": 0.5}) as node, node.agent():
        claim = await node.claim(namespace, "eager", device)
        await node.partition(device, "2g.20gb", holder=holder(claim))
        answer = (await node.prepare(claim))[claim["metadata"]["uid"]]
        assert answer.error == ""
        assert len(node.hardware()) == 1


async def test_prepare_and_unprepare_may_come_again(make_node: MakeNode, namespace: str) -> None:
    """The same answer, also after a restart and after a reboot that emptied the CDI folder."""
    async with make_node(cards=[H100 | {"count": 2}]) as node:
        async with node.agent():
            claim = await node.claim(namespace, "twice", "gpu-0", "gpu-1")
            uid = claim["metadata"]["uid"]
            first = await node.prepare(claim)
            assert first[uid].error == ""
            assert await node.prepare(claim) == first
        for path in (node.folder / "cdi").iterdir():
            path.unlink()
        async with node.agent():
            assert await node.prepare(claim) == first
            assert len(node.cdi()) == 1
            assert await node.unprepare(claim) == {uid: ""}
            assert await node.unprepare(claim) == {uid: ""}
            assert node.cdi() == {}


async def test_a_whole_card_is_refused_to_a_second_claim_that_names_the_first(
    make_node: MakeNode, namespace: str
) -> None:
    """The last line of defence against double allocation; the card is free after unprepare."""
    async with make_node(cards=[H100]) as node, node.agent():
        one = await node.claim(namespace, "one", "gpu-0")
        two = await node.claim(namespace, "two", "gpu-0")
        uids = one["metadata"]["uid"], two["metadata"]["uid"]
        assert (await node.prepare(one))[uids[0]].error == ""
        assert f"held by ResourceClaim {namespace}/one" in (await node.prepare(two))[uids[1]].error
        await node.unprepare(one)
        assert (await node.prepare(two))[uids[1]].error == ""


async def test_a_device_stays_held_until_it_is_unprepared(make_node: MakeNode, namespace: str) -> None:
    """A pod deleted by force leaves containers behind: the taint stays, and the counters miss what it uses."""
    device = "gpu-0-mig-3g40gb-9-4"
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "forced", device)
        await node.partition(device, "3g.40gb", holder=holder(claim))
        assert (await node.prepare(claim))[claim["metadata"]["uid"]].error == ""
        await node.deallocate(claim)

        def keys(devices: dict[str, Json]) -> list[str]:
            return [taint["key"] for taint in devices.get(device, {}).get("taints", ())]

        await eventually(node.devices, lambda found: "apportion.dev/held" in keys(found))
        counters = await eventually(
            lambda: node.counters("gpu-0"), lambda found: found["memory-slice-4"] == "0"
        )
        assert counters["multiprocessors"] == "72"
        await node.remove(device)
        blocked = await eventually(
            lambda: node.see(device),
            lambda item: item["status"]["conditions"][0]["reason"] == "InUse",
        )
        assert f"{namespace}/forced" in blocked["status"]["conditions"][0]["message"]
        assert len(node.hardware()) == 1

        await node.unprepare(claim)
        await eventually(lambda: node.see(device), lambda item: item == {})
        await eventually(node.devices, lambda found: keys(found) == ["apportion.dev/guard"])
        assert node.hardware() == []


async def test_a_layouts_partition_is_published_and_served(make_node: MakeNode, namespace: str) -> None:
    """A device of its own, subtracted from the counters; claims on it make no Partition."""
    device = "gpu-0-mig-1g10gb-19-0-static"
    layout = {"kind": "PartitionLayout", "name": "nightly", "uid": "layout-uid"}
    async with make_node(cards=[H100]) as node, node.agent():
        await node.partition(
            device, "1g.10gb", holder=layout, origin="Layout", placement={"start": 0, "size": 1}
        )
        await node.phase(device, "Ready")
        devices = await eventually(node.devices, lambda found: device in found)
        attributes = devices[device]["attributes"]
        assert attributes["layout"] == {"string": "nightly"}
        assert attributes["uuid"] == {"string": node.hardware()[0]["uuid"]}
        assert (await node.counters("gpu-0"))["memory-slice-0"] == "0"
        claim = await node.claim(namespace, "static", device)
        assert (await node.prepare(claim))[claim["metadata"]["uid"]].error == ""
        await node.remove(device)
        await node.unprepare(claim)
        await eventually(node.devices, lambda found: device not in found)
        assert node.hardware() == []


async def test_a_create_waits_for_the_room_that_an_idle_partition_still_takes(
    make_node: MakeNode, namespace: str
) -> None:
    """The operator deletes the idle one; the new one is cut as soon as it is gone."""
    async with make_node(cards=[H100], faults={"destroyDelay": 0.3}) as node, node.agent():
        await node.partition("gpu-0-mig-7g80gb-0-0", "7g.80gb", origin="Warm")
        await node.phase("gpu-0-mig-7g80gb-0-0", "Idle")
        claim = await node.claim(namespace, "next", "gpu-0-mig-1g10gb-19-6")
        await node.partition("gpu-0-mig-1g10gb-19-6", "1g.10gb", holder=holder(claim))
        waiting = await node.phase("gpu-0-mig-1g10gb-19-6", "Pending")
        assert waiting["status"]["conditions"][0]["reason"] == "NoRoom"
        await node.remove("gpu-0-mig-7g80gb-0-0")
        await node.phase("gpu-0-mig-1g10gb-19-6", "Ready")
        assert [p["profile"] for p in node.hardware()] == ["1g.10gb"]


async def test_a_foreign_partition_is_subtracted_and_left_alone(make_node: MakeNode) -> None:
    """Made by hand: nobody else's to remove, in the way of whoever wants its place."""
    foreign = {"card": "gpu-0", "profile": "1g.10gb", "start": 6}
    async with make_node(cards=[H100], foreign=[foreign]) as node, node.agent():
        counters = await eventually(lambda: node.counters("gpu-0"))
        assert counters["memory-slice-6"] == "0"
        assert counters["memory-slice-5"] == "1"
        await node.partition("gpu-0-mig-1g10gb-19-6", "1g.10gb", origin="Warm")
        stuck = await node.phase("gpu-0-mig-1g10gb-19-6", "Pending")
        assert "did not make" in stuck["status"]["conditions"][0]["message"]
        await node.remove("gpu-0-mig-1g10gb-19-6")
        await eventually(lambda: node.see("gpu-0-mig-1g10gb-19-6"), lambda item: item == {})
        assert [p["foreign"] for p in node.hardware()] == [True]


@pytest.mark.parametrize(
    ("device", "profile", "reason"),
    [
        ("gpu-0-mig-1g10gb-19-7", "1g.10gb", "UnknownDevice"),
        ("gpu-9-mig-1g10gb-19-0", "1g.10gb", "UnknownCard"),
    ],
)
async def test_what_cannot_be_cut_fails_with_a_reason(
    make_node: MakeNode, device: str, profile: str, reason: str
) -> None:
    """A permanent failure is said once, and the object can be deleted."""
    async with make_node(cards=[H100]) as node, node.agent():
        await node.partition(device, profile, origin="Warm")
        failed = await node.phase(device, "Failed")
        assert {c["reason"] for c in failed["status"]["conditions"]} == {reason}
        await node.remove(device)
        await eventually(lambda: node.see(device), lambda item: item == {})


async def test_a_sick_card_is_tainted_until_it_recovers(make_node: MakeNode) -> None:
    """Health is looked at all the time, not only at start."""
    async with make_node(cards=[H100]) as node, node.agent():
        await eventually(node.devices)
        for sick, taints in ((["gpu-0"], 2), ([], 1)):
            with node.switchboard() as state:
                state["faults"]["sick"] = sick
            await eventually(node.devices, lambda found, n=taints: len(found["gpu-0"]["taints"]) == n)


async def test_prepare_refuses_what_the_api_does_not_confirm(make_node: MakeNode, namespace: str) -> None:
    """Another claim of that name, no allocation, another node, an unknown device: each says which."""
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "odd", "gpu-0")
        wrong = {"metadata": claim["metadata"] | {"uid": "somebody-else"}}
        assert "with uid somebody-else does not exist" in (await node.prepare(wrong))["somebody-else"].error
        uid = claim["metadata"]["uid"]
        await node.deallocate(claim)
        assert "is not allocated" in (await node.prepare(claim))[uid].error
        await node.allocate(claim, "gpu-1")
        assert "does not exist on this node" in (await node.prepare(claim))[uid].error


async def test_the_older_protocol_is_served_too(make_node: MakeNode, namespace: str) -> None:
    """v1beta1 differs in name only."""
    async with make_node(cards=[H100]) as node, node.agent():
        node.messages = dra_v1beta1_pb2
        claim = await node.claim(namespace, "old", "gpu-0")
        uid = claim["metadata"]["uid"]
        answer = (await node.prepare(claim))[uid]
        assert [device.device_name for device in answer.devices] == ["gpu-0"]
        assert await node.unprepare(claim) == {uid: ""}


async def test_the_installed_rights_are_enough_and_all_used(
    make_node: MakeNode, namespace: str, control_plane: ControlPlane
) -> None:
    """The API server's audit log: nothing refused, and these verbs are what the agent needs."""
    device = "gpu-0-mig-1g10gb-19-3"
    before = len(control_plane.audited())
    async with make_node(cards=[H100 | {"count": 2}]) as node:
        async with node.agent():
            claim = await node.claim(namespace, "first", device)
            await node.partition(device, "1g.10gb", holder=holder(claim))
            assert (await node.prepare(claim))[claim["metadata"]["uid"]].error == ""
            await node.unprepare(claim)
            await node.remove(device)
            await eventually(lambda: node.see(device), lambda item: item == {})
            with node.switchboard() as state:
                state["faults"]["sick"] = ["gpu-0"]
            await eventually(
                node.devices, lambda found: "gpu-0" in found and len(found["gpu-0"]["taints"]) == 2
            )
        # One card less: a slice is deleted.
        (node.folder / "node.yaml").write_text(json.dumps({"cards": [H100]}))
        async with node.agent():
            await eventually(node.slices, lambda slices: len(slices) == 2)
    asked = [
        request
        for request in control_plane.audited()[before:]
        if request.user == "system:serviceaccount:apportion-system:apportion-agent"
    ]
    assert not [request for request in asked if request.decision != "allow"]
    assert {(request.verb, request.resource, request.subresource) for request in asked} == {
        ("get", "nodes", ""),
        ("list", "resourceslices", ""),
        ("watch", "resourceslices", ""),
        ("create", "resourceslices", ""),
        ("update", "resourceslices", ""),
        ("delete", "resourceslices", ""),
        ("get", "resourceclaims", ""),
        ("list", "partitions", ""),
        ("watch", "partitions", ""),
        ("patch", "partitions", ""),
        ("patch", "partitions", "status"),
    }


async def test_a_pod_runs_with_its_devices_on_a_kubelet(
    make_node: MakeNode, namespace: str, control_plane: ControlPlane
) -> None:
    """Registration, prepare, CDI and unprepare with the testbed's kubelet: the container finds its partition."""
    device = "gpu-0-mig-1g10gb-19-0"
    async with make_node(cards=[H100]) as node:
        shape = NodeShape(node.name)
        rights = control_plane.client_kubeconfig(f"system:node:{node.name}", ["system:nodes"])
        async with FakeKubelet(
            shape, kubeconfig=rights, root=node.folder, cdi=node.folder / "cdi"
        ) as kubelet:
            folders = {
                "plugins_dir": node.folder / "plugins",
                "registry_dir": node.folder / "plugins_registry",
            }
            async with node.agent(**folders):
                claim = await node.claim(namespace, "mine", device)
                await node.partition(device, "1g.10gb", holder=holder(claim))
                pods = f"/api/v1/namespaces/{namespace}/pods"
                pod = await node.api.create(pods, using(claim, node.name))
                await node.reserve(claim, pod)
                record = await eventually(lambda: running(kubelet, pod), bool)
                environment = record.injected["main"].environment
                assert environment["APPORTION_R0"] == device
                assert environment["APPORTION_R0_UUID"] == node.hardware()[0]["uuid"]
                await node.api.delete(f"{pods}/{pod['metadata']['name']}", grace=0)
                await eventually(node.injected, lambda files: files == {})
                await eventually(lambda: node.see(device), lambda p: "preparedBy" not in p["status"])


async def running(kubelet: FakeKubelet, pod: Json) -> PodRecord | None:
    """Return the pod's record once its containers run."""
    record = kubelet.records.get(pod["metadata"]["uid"])
    return record if record is not None and record.running is not None else None


def using(claim: Json, node: str) -> Json:
    """Return a pod on a node that uses a claim."""
    return {
        "metadata": {"generateName": "uses-"},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }


async def test_the_registration_offers_both_versions(make_node: MakeNode) -> None:
    """Kubelet takes the first that it knows."""
    async with make_node(cards=[H100]) as node, node.agent():
        info = await node.registered()
        assert (info.type, info.name) == ("DRAPlugin", "gpu.apportion.dev")
        assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
        assert info.endpoint == f"{node.folder}/p/gpu.apportion.dev/dra.sock"
