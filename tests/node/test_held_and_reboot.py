"""What only a real container can show: a device whose pod is gone while its program runs on, and a node that lost its power."""

import asyncio

from testbed.api import Json
from testbed.eventually import eventually
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import Workload, mig, vnpu

_HELD = "apportion.dev/held"


async def _taints(installation: RealNodeInstallation, device: str) -> set[str]:
    return {
        taint["key"]
        for each in await installation.slices()
        for found in each["spec"].get("devices", ())
        if found["name"] == device
        for taint in found.get("taints", ())
    }


async def test_a_device_is_held_while_the_program_of_a_pod_deleted_by_force_runs(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """The API forgot the pod, kubelet hangs, the program runs: nobody else gets the device before it is unprepared."""
    seen = await work.run("orphan", mig("7g.80gb"))
    programs = installation.node.processes()
    installation.node.kubelet.suspend()
    try:
        await work.delete_by_force("orphan")
        await eventually(lambda: _taints(installation, seen.device), lambda keys: _HELD in keys)
        await work.create("next", mig("7g.80gb"))
        await asyncio.sleep(2.0)
        assert "allocation" not in (await work.claim("next")).get("status", {})
        assert installation.node.processes() == programs, "it ran all the time"
    finally:
        installation.node.kubelet.resume()
    pod = await work.running("next")
    assert not installation.node.processes() & programs, "it has ended before the next one began"
    printed = await work.printed(pod)
    assert f"env APPORTION_PART={seen.device}" in printed
    await eventually(lambda: _taints(installation, seen.device), lambda keys: _HELD not in keys)


async def test_pods_restart_after_a_reboot_of_the_node(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """No instance, no CDI file and no process survives; the pods are prepared anew, on partitions cut anew."""
    before = await work.run("mig", mig("1g.10gb"), restart="Always")
    chip = await work.run("vnpu", vnpu("vir05_1c_8g"), restart="Always")
    (first,) = installation.hardware.dcmi.vnpus()
    boot = (await installation.node.ready())["status"]["nodeInfo"]["bootID"]
    await installation.power_cut()
    assert installation.hardware.partitions() == []
    assert installation.cdi() == []
    await installation.power_on()

    async def current(name: str) -> Json:
        return await work.pod(name)

    def restarted(pod: Json) -> bool:
        [status] = pod["status"]["containerStatuses"]
        return status["restartCount"] > 0 and "running" in status["state"]

    pods = {
        name: await eventually(lambda n=name: current(n), restarted, within=90) for name in ("mig", "vnpu")
    }
    assert (await installation.node.ready())["status"]["nodeInfo"]["bootID"] != boot
    (live,) = installation.hardware.nvml.instances()
    (compute,) = live.compute
    assert compute.uuid != before.environment["APPORTION_PART_UUID"], "cut anew"
    printed = await work.printed(pods["mig"])
    assert f"env APPORTION_PART_UUID={compute.uuid}" in printed
    assert f"env APPORTION_PART={before.device}" in printed
    (second,) = installation.hardware.dcmi.vnpus()
    assert second.serial != first.serial
    assert f"env APPORTION_PART={chip.device}" in await work.printed(pods["vnpu"])
    partitions = {each["spec"]["device"]: each for each in await installation.partitions()}
    assert partitions[before.device]["status"]["uuid"] == compute.uuid
