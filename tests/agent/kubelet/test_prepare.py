"""What kubelet asks of the agent: registration, prepare and unprepare over its sockets, with the installed rights."""

import asyncio
import json

from apportion.agent.proto import dra_v1beta1_pb2
from testbed.api import Json
from testbed.audit import Request
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.kubelet import FakeKubelet
from testbed.kubelet.podrecord import PodRecord
from testbed.node import NodeShape
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode, holder


async def test_prepare_waits_for_the_cut(make_node: MakeNode, namespace: str) -> None:
    """The pod may be faster than the driver; the call returns when the partition is there."""
    device = "gpu-0-mig-2g20gb-14-0"
    async with make_node(cards=[H100], faults={"createDelay": 0.5}) as node, node.agent():
        claim = await node.claim(namespace, "eager", device)
        await node.partition(device, "2g.20gb", holder=holder(claim))
        answer = (await node.prepare(claim))[claim["metadata"]["uid"]]
        assert answer.error == ""
        assert len(node.hardware()) == 1


async def test_prepare_and_unprepare_may_be_repeated(make_node: MakeNode, namespace: str) -> None:
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
            assert await node.unprepared(claim) == ""
            assert await node.unprepared(claim) == ""
            assert node.cdi() == {}


async def test_a_whole_card_is_refused_to_a_second_claim_that_names_the_first(
    make_node: MakeNode, namespace: str
) -> None:
    """The last line of defence against double allocation; the card is free after unprepare."""
    async with make_node(cards=[H100]) as node, node.agent():
        one = await node.claim(namespace, "one", "gpu-0")
        two = await node.claim(namespace, "two", "gpu-0")
        assert await node.prepared(one) == ""
        assert f"held by ResourceClaim {namespace}/one" in await node.prepared(two)
        await node.unprepare(one)
        assert await node.prepared(two) == ""


async def test_a_device_stays_held_until_it_is_unprepared(make_node: MakeNode, namespace: str) -> None:
    """A pod deleted by force leaves containers behind: the taint stays, and the counters miss what it uses."""
    device = "gpu-0-mig-3g40gb-9-4"
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "forced", device)
        await node.partition(device, "3g.40gb", holder=holder(claim))
        assert await node.prepared(claim) == ""
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
            lambda item: item.get("status", {}).get("conditions", [{}])[0].get("reason") == "InUse",
        )
        assert f"{namespace}/forced" in blocked["status"]["conditions"][0]["message"]
        assert len(node.hardware()) == 1

        await node.unprepare(claim)
        await eventually(lambda: node.see(device), lambda item: item == {})
        await eventually(node.devices, lambda found: keys(found) == ["apportion.dev/guard"])
        assert node.hardware() == []


async def test_prepare_refuses_what_the_api_does_not_confirm(make_node: MakeNode, namespace: str) -> None:
    """Another claim of that name, no allocation, another node, an unknown device: each says which."""
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "odd", "gpu-0")
        wrong = {"metadata": claim["metadata"] | {"uid": "somebody-else"}}
        assert "with uid somebody-else does not exist" in await node.prepared(wrong)
        await node.deallocate(claim)
        assert "is not allocated" in await node.prepared(claim)
        await node.allocate(claim, "gpu-1")
        assert "does not exist on this node" in await node.prepared(claim)


async def test_the_older_protocol_is_served_too(make_node: MakeNode, namespace: str) -> None:
    """v1beta1 differs in name only."""
    async with make_node(cards=[H100]) as node, node.agent():
        node.messages = dra_v1beta1_pb2
        claim = await node.claim(namespace, "old", "gpu-0")
        uid = claim["metadata"]["uid"]
        answer = (await node.prepare(claim))[uid]
        assert [device.device_name for device in answer.devices] == ["gpu-0"]
        assert await node.unprepared(claim) == ""


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
            assert await node.prepared(claim) == ""
            await node.unprepare(claim)
            await node.remove(device)
            await eventually(lambda: node.see(device), lambda item: item == {})
            with node.switchboard() as state:
                state["faults"]["sick"] = ["gpu-0"]
            await eventually(
                node.devices, lambda found: "gpu-0" in found and len(found["gpu-0"]["taints"]) == 2
            )
            # An agent that ends writes no Event any more.
            await eventually(node.events, lambda events: [event["count"] for event in events] == [1])
        # One card less: a slice is deleted.
        (node.folder / "node.yaml").write_text(json.dumps({"cards": [H100]}))
        async with node.agent():
            await eventually(node.slices, lambda slices: len(slices) == 2)
            # Still sick: the Event about it is counted up.
            await eventually(node.events, lambda events: [event["count"] for event in events] == [2])

    async def asked() -> list[Request]:
        return [
            request
            for request in control_plane.audited()[before:]
            if request.user == "system:serviceaccount:apportion-system:apportion-agent"
        ]

    needed = {
        ("get", "nodes", ""),
        ("list", "nodes", ""),
        ("watch", "nodes", ""),
        ("list", "allocationpolicies", ""),
        ("watch", "allocationpolicies", ""),
        ("list", "resourceslices", ""),
        ("watch", "resourceslices", ""),
        ("create", "resourceslices", ""),
        ("update", "resourceslices", ""),
        ("delete", "resourceslices", ""),
        ("get", "resourceclaims", ""),
        ("patch", "resourceclaims", "status"),
        ("create", "events", ""),
        ("patch", "events", ""),
        ("list", "partitions", ""),
        ("watch", "partitions", ""),
        ("patch", "partitions", ""),
        ("patch", "partitions", "status"),
    }
    # The log of requests has one a moment after its answer.
    found = await eventually(asked, lambda requests: needed <= {*map(_right, requests)})
    assert not [request for request in found if request.decision != "allow"]
    assert {*map(_right, found)} == needed


def _right(request: Request) -> tuple[str, str, str]:
    return request.verb, request.resource, request.subresource


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
                await eventually(lambda: asyncio.to_thread(node.cdi), lambda files: files == {})
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


async def test_the_registration_offers_every_version(make_node: MakeNode) -> None:
    """Kubelet takes the first that it knows."""
    async with make_node(cards=[H100]) as node, node.agent():
        info = await node.registered()
        assert (info.type, info.name) == ("DRAPlugin", "gpu.apportion.dev")
        assert list(info.supported_versions) == [
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]
        assert info.endpoint == f"{node.folder}/p/gpu.apportion.dev/dra.sock"
