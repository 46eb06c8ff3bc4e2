"""A partition on a real API server: from the object to the simulated hardware and back."""

import pytest

from apportion.agent.lifecycle.context import Timeouts
from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.agent.places import H100, NPU
from tests.agent.simulatednode import MakeNode, holder, install, simulated_node


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

        assert await node.unprepared(claim) == ""
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


async def test_a_driver_that_is_busy_is_retried(make_node: MakeNode) -> None:
    """Two refusals cost two short pauses, nothing else."""
    failures = [{"error": "Busy", "times": 2}]
    async with make_node(cards=[H100], faults={"failures": failures}) as node, node.agent():
        await node.partition("gpu-0-mig-1g10gb-19-0", "1g.10gb", origin="Warm")
        await node.phase("gpu-0-mig-1g10gb-19-0", "Idle")
        assert len(node.hardware()) == 1


async def test_lack_of_room_that_lasts_is_a_failure(make_node: MakeNode) -> None:
    """After some patience the status says so; when the room is there after all, the partition is cut."""
    timeouts = Timeouts(room=0.3, failed=0.5)
    foreign = [{"card": "gpu-0", "profile": "1g.10gb", "start": 6}]
    device = "gpu-0-mig-1g10gb-19-6"
    async with make_node(cards=[H100], foreign=foreign) as node, node.agent(timeouts=timeouts):
        await node.partition(device, "1g.10gb", origin="Warm")
        failed = await node.phase(device, "Failed")
        assert [(c["type"], c["status"], c["reason"]) for c in failed["status"]["conditions"]] == [
            ("Ready", "False", "NoRoom"),
            ("Failed", "True", "NoRoom"),
        ]
        with node.switchboard() as state:
            state["partitions"].clear()
        cut = await node.phase(device, "Idle")
        assert [(c["type"], c["status"]) for c in cut["status"]["conditions"]] == [
            ("Ready", "True"),
            ("Failed", "False"),
        ]


async def test_a_place_that_the_driver_refuses_for_good_is_tainted(make_node: MakeNode) -> None:
    """The claim that waits for it is sent elsewhere."""
    device = "gpu-0-mig-1g10gb-19-0"
    failures = [{"error": "Unsupported", "times": 1000}]
    async with make_node(cards=[H100], faults={"failures": failures}) as node, node.agent():
        await node.partition(device, "1g.10gb", origin="Warm")
        await node.phase(device, "Failed")

        def taints(found: dict[str, Json]) -> list[str]:
            return [taint["effect"] for taint in found.get(device, {}).get("taints", ())]

        await eventually(node.devices, lambda found: taints(found) == ["NoSchedule", "NoExecute"])
        await node.remove(device)
        await eventually(node.devices, lambda found: taints(found) == ["NoSchedule"])


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


async def test_a_partitions_whole_life_on_the_oldest_kubernetes(
    oldest_control_plane: ControlPlane, oldest_namespace: str
) -> None:
    """Slices with counters and taints, the partition, prepare and unprepare: all as on the newest."""
    device = "npu-0-vir05-1c-8g-0"
    await install(oldest_control_plane)
    async with (
        simulated_node(oldest_control_plane, cards=[{"model": "910B4", "count": 9}]) as node,
        node.agent(),
    ):
        await eventually(node.slices, lambda slices: len(slices) == 11)
        claim = await node.claim(oldest_namespace, "old", device, driver=NPU)
        await node.partition(device, "vir05_1c_8g", holder=holder(claim), driver=NPU)
        assert await node.prepared(claim, driver=NPU) == ""
        path = f"/apis/resource.k8s.io/v1/namespaces/{oldest_namespace}/resourceclaims/old"

        async def ready() -> str:
            (entry,) = (await node.api.get(path))["status"].get("devices", [{"conditions": [{"status": ""}]}])
            status: str = entry["conditions"][0]["status"]
            return status

        await eventually(ready, lambda status: status == "True")
        await node.unprepare(claim, driver=NPU)
        await node.remove(device)
        await eventually(lambda: node.see(device), lambda item: item == {})
        assert (node.hardware(), node.cdi()) == ([], {})
