"""Pods with partitions on a real kubelet and containerd: what the container has is what was injected, and nothing stays."""

import json

from testbed.eventually import eventually
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import Workload, mig, vnpu


async def test_a_container_has_its_mig_device_and_nothing_stays_of_it(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """Control files, its GPU's file and its own two capability files, by the driver's numbers; UUID and metadata by request."""
    seen = await work.run("mig", mig("1g.10gb"))
    (live,) = installation.hardware.nvml.instances()
    (compute,) = live.compute
    assert seen.environment["APPORTION_PART"] == seen.device
    assert seen.environment["APPORTION_PART_UUID"] == compute.uuid
    assert seen.environment["APPORTION_PARTITION_UUID"] == compute.uuid
    assert seen.environment["NVIDIA_VISIBLE_DEVICES"] == "void"
    rows = (installation.hardware.root / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    minors = dict(row.split() for row in rows)
    instance = f"gpu0/gi{live.id}"
    caps = [minors[f"{instance}/access"], minors[f"{instance}/ci{compute.id}/access"]]
    assert {path: number for path, number in seen.devices.items() if "nvidia" in path} == {
        "/dev/nvidiactl": "195:255",
        "/dev/nvidia-modeset": "195:254",
        "/dev/nvidia0": "195:0",
        "/dev/nvidia-uvm": "508:0",
        "/dev/nvidia-uvm-tools": "508:1",
        **{f"/dev/nvidia-caps/nvidia-cap{minor}": f"237:{minor}" for minor in caps},
    }
    ((path, content),) = seen.metadata.items()
    assert path == (
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/mig/part/gpu.apportion.dev-metadata.json"
    )
    (device,) = json.JSONDecoder().raw_decode(content)[0]["requests"][0]["devices"]
    assert (device["name"], device["pool"]) == (seen.device, installation.name)
    assert device["attributes"]["uuid"] == {"string": compute.uuid}
    (file,) = installation.cdi()
    assert seen.claim["metadata"]["uid"] in file
    assert len(installation.node.processes()) == 2, "a sandbox and a container"

    await work.delete("mig")
    await installation.nothing_left(warm=True)
    assert installation.hardware.nvml.instances() == (live,), "the warm one, for the next claim"


async def test_a_container_has_its_vnpu_and_nothing_stays_of_it(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """The vNPU's file under the name of a chip's, the driver's manager files, and not the chip's own file."""
    seen = await work.run("vnpu", vnpu("vir05_1c_8g"))
    (live,) = installation.hardware.dcmi.vnpus()
    assert live.template == "vir05_1c_8g"
    assert seen.environment["APPORTION_PART"] == seen.device
    assert seen.environment["ASCEND_VISIBLE_DEVICES"] == "void"
    assert {path: number for path, number in seen.devices.items() if number.startswith(("235:", "236:"))} == {
        f"/dev/davinci{live.id}": f"236:{live.id}",
        "/dev/davinci_manager": "235:250",
        "/dev/devmm_svm": "235:251",
        "/dev/hisi_hdc": "235:252",
    }
    (file,) = installation.cdi()
    assert seen.claim["metadata"]["uid"] in file

    await work.delete("vnpu")
    await installation.nothing_left(warm=True)
    assert installation.hardware.dcmi.vnpus() == (live,), "the warm one, for the next claim"


async def test_a_warm_partition_serves_the_next_pod_as_it_is(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """The second pod gets the first one's partition, and the driver is asked for none."""
    first = await work.run("first", mig("2g.20gb"))
    await work.delete("first")
    await installation.nothing_left(warm=True)
    cut = installation.hardware.nvml.calls()["nvmlDeviceCreateGpuInstanceWithPlacement"]
    second = await work.run("second", mig("2g.20gb"))
    assert second.environment["APPORTION_PART_UUID"] == first.environment["APPORTION_PART_UUID"]
    assert installation.hardware.nvml.calls()["nvmlDeviceCreateGpuInstanceWithPlacement"] == cut


async def test_two_pods_see_their_own_partition_only(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """Two partitions of one card, in two containers: different UUIDs, different capability files."""
    one, other = await work.run("one", mig("1g.10gb")), await work.run("other", mig("1g.10gb"))
    assert one.environment["APPORTION_PART_UUID"] != other.environment["APPORTION_PART_UUID"]
    caps = [{path for path in seen.devices if "nvidia-cap" in path} for seen in (one, other)]
    assert [len(each) for each in caps] == [2, 2]
    assert not caps[0] & caps[1]
    for file in installation.cdi():
        json.loads((installation.node.host.run / "cdi" / file).read_text())


async def test_a_pod_shows_how_its_device_fares(installation: RealNodeInstallation, work: Workload) -> None:
    """What the chip's driver reports comes to the pod's status through kubelet's health stream, and goes again."""
    await work.run("patient", vnpu("vir05_1c_8g"))

    async def health() -> tuple[str, str]:
        (status,) = (await work.pod("patient"))["status"]["containerStatuses"]
        rows = [row for each in status.get("allocatedResourcesStatus", ()) for row in each["resources"]]
        return (rows[0]["health"], rows[0].get("message", "")) if rows else ("", "")

    await eventually(health, lambda found: found[0] == "Healthy")
    try:
        installation.hardware.dcmi.set_health(0, 2)
        ill = await eventually(health, lambda found: found[0] == "Unhealthy")
        assert "npu-0" in ill[1]
    finally:
        installation.hardware.dcmi.set_health(0, 0)
    await eventually(health, lambda found: found[0] == "Healthy")
