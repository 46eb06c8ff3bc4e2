"""What only a real container can show: a device whose pod is gone while its program runs on, and a node that lost its power."""

import asyncio

from testbed.api import Json
from testbed.eventually import eventually
from testbed.realnode.bed import RealBed
from testbed.realnode.workload import Workload, mig, vnpu

_HELD = "apportion.dev/held"


async def _taints(bed: RealBed, device: str) -> set[str]:
    return {
        taint["key"]
        for each in await bed.slices()
        for found in each["spec"].get("devices", ())
        if found["name"] == device
        for taint in found.get("taints", ())
    }


async def test_a_device_is_held_while_the_program_of_a_pod_deleted_by_force_runs(
    bed: RealBed, work: Workload
) -> None:
    """The API forgot the pod, kubelet hangs, the program runs: nobody else gets the device before it is unprepared."""
    seen = await work.run("orphan", mig("7g.80gb"))
    programs = bed.node.processes()
    bed.node.kubelet.freeze()
    try:
        await work.delete_by_force("orphan")
        await eventually(lambda: _taints(bed, seen.device), lambda keys: _HELD in keys, within=40)
        await work.create("next", mig("7g.80gb"))
        await asyncio.sleep(2.0)
        assert "allocation" not in (await work.claim("next")).get("status", {})
        assert bed.node.processes() == programs, "it ran all the time"
    finally:
        bed.node.kubelet.thaw()
    pod = await work.running("next")
    assert not bed.node.processes() & programs, "it has ended before the next one began"
    told = await work.told(pod)
    assert f"env APPORTION_PART={seen.device}" in told
    await eventually(lambda: _taints(bed, seen.device), lambda keys: _HELD not in keys, within=40)


async def test_pods_run_again_after_a_reboot_of_the_node(bed: RealBed, work: Workload) -> None:
    """No instance, no CDI file and no process survives; the pods are prepared anew, on partitions cut anew."""
    before = await work.run("mig", mig("1g.10gb"), restart="Always")
    chip = await work.run("vnpu", vnpu("vir05_1c_8g"), restart="Always")
    (first,) = bed.hardware.dcmi.vnpus()
    boot = (await bed.node.ready())["status"]["nodeInfo"]["bootID"]
    await bed.power_cut()
    assert bed.hardware.partitions() == []
    assert bed.cdi() == []
    await bed.power_on()

    async def again(name: str) -> Json:
        return await work.pod(name)

    def restarted(pod: Json) -> bool:
        [status] = pod["status"]["containerStatuses"]
        return status["restartCount"] > 0 and "running" in status["state"]

    pods = {name: await eventually(lambda n=name: again(n), restarted, within=90) for name in ("mig", "vnpu")}
    assert (await bed.node.ready())["status"]["nodeInfo"]["bootID"] != boot
    (live,) = bed.hardware.nvml.instances()
    (compute,) = live.compute
    assert compute.uuid != before.environment["APPORTION_PART_UUID"], "cut anew"
    told = await work.told(pods["mig"])
    assert f"env APPORTION_PART_UUID={compute.uuid}" in told
    assert f"env APPORTION_PART={before.device}" in told
    (second,) = bed.hardware.dcmi.vnpus()
    assert second.serial != first.serial
    assert f"env APPORTION_PART={chip.device}" in await work.told(pods["vnpu"])
    partitions = {each["spec"]["device"]: each for each in await bed.partitions()}
    assert partitions[before.device]["status"]["uuid"] == compute.uuid
