"""What real cards and disks do to a node while pods come and go, each as one trial on a real node with two GPUs and an NPU.

In: an installation, pods. Out: nothing; a TestbedError says what a pod was given or denied wrongly. Every trial leaves the node as it was.
Whether a container's device file belongs to the UUID of its claim is read from the fake drivers, without the product's code.
"""

import re
from typing import Final

from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import DeviceRequest, RunningPod, Workload, gpu, mig, vnpu

_GPU_FILE: Final = re.compile(r"/dev/nvidia[0-9]+")
SICK: Final = "apportion.dev/unhealthy"
DRIVER_USER: Final = "nvidia.com/gpu.deploy.client"
"""Label by which NVIDIA's driver manager has those leave that use the driver (NVIDIA/k8s-driver-manager)."""
PAUSED: Final = "paused-for-driver-upgrade"
"""Its value meanwhile."""
_NEXT_DRIVER: Final = "580.65.06"
_INNER_ERROR: Final = -8005
"""What every function of DCMI may answer (its header: DCMI_ERR_CODE_INNER_ERR)."""


async def shift_indices(installation: RealNodeInstallation, work: Workload) -> None:
    """The first GPU leaves the driver's list, as when it is bound to VFIO: a pod with the second one still gets that one."""
    nvml = installation.hardware.nvml
    second = gpu(gpu_uuid(installation, 1))
    nvml.take(0)
    try:
        await run_checked(installation, work, "shifted", second)
    finally:
        nvml.give_back(0)
    await _well(installation, "gpu-0")
    await run_checked(installation, work, "shifted-back", second)


async def swap_minors(installation: RealNodeInstallation, work: Workload) -> None:
    """Both GPUs get each other's device file, as after a reload of the driver's module: a pod gets the file of its claim's GPU."""
    installation.hardware.nvml.rebind(0, 1)
    try:
        for index in range(2):
            await run_checked(installation, work, f"swapped-{index}", gpu(gpu_uuid(installation, index)))
    finally:
        installation.hardware.nvml.rebind(0, 1)


async def fill_disk(installation: RealNodeInstallation, work: Workload) -> None:
    """The journal's disk is full: a pod waits and its Event says why, and runs once there is room."""
    if installation.disk is None:
        raise TestbedError("the installation has no disk of its own for the journal")
    installation.disk.fill()
    try:
        await work.create("waiting", mig("1g.10gb"))
        await eventually(lambda: work.events("waiting"), lambda said: "full" in said, within=60)
    finally:
        installation.disk.free()
    await work.running("waiting")
    await work.delete("waiting")


async def hang_call(installation: RealNodeInstallation, work: Workload) -> None:
    """The driver never answers about the second GPU: that one is sick, and a pod with the first one runs."""
    nvml = installation.hardware.nvml
    nvml.hang("nvmlDeviceGetMemoryInfo", card=1)
    nvml.hang("nvmlDeviceGetTotalEccErrors", card=1)
    try:
        await eventually(lambda: installation.taints("gpu-1"), lambda keys: SICK in (keys or ()), within=60)
        await run_checked(installation, work, "beside", gpu(gpu_uuid(installation, 0)))
    finally:
        nvml.drop_rules()
    await _well(installation, "gpu-1")


async def fail_other_driver(installation: RealNodeInstallation, work: Workload) -> None:
    """The NPU's driver fails: a pod with a MIG device runs; once the driver is back, one with a vNPU does."""
    dcmi = installation.hardware.dcmi
    dcmi.fail("dcmi_get_device_health", _INNER_ERROR, times=-1)
    dcmi.fail("dcmi_create_vdevice", _INNER_ERROR, times=-1)
    try:
        await eventually(lambda: installation.taints("npu-0"), lambda keys: SICK in (keys or ()), within=60)
        await run_checked(installation, work, "other", mig("1g.10gb"))
    finally:
        dcmi.drop_rules()
    await _well(installation, "npu-0")
    await run_checked(installation, work, "back", vnpu("vir05_1c_8g"))


async def exchange_driver(installation: RealNodeInstallation, work: Workload) -> None:
    """NVIDIA's driver manager exchanges the driver: the agent lets go, a pod that is evicted ends meanwhile, and the next one runs on the new driver."""
    nvml = installation.hardware.nvml
    evicted = await work.run("evicted", mig("1g.10gb"))
    await installation.label_node(DRIVER_USER, PAUSED)
    try:
        await work.delete("evicted")
        await eventually(
            lambda: installation.taints(evicted.device), lambda keys: SICK in (keys or ()), within=60
        )
        nvml.exchange(_NEXT_DRIVER)
    finally:
        await installation.label_node(DRIVER_USER, "true")
    await installation.agents.pop().ended()
    await installation.agent()
    await run_checked(installation, work, "after", mig("1g.10gb"))
    if "not registered" in (said := await work.events("after")):
        raise TestbedError(f"the pod came before kubelet had registered the next agent: {said}")


async def run_checked(
    installation: RealNodeInstallation, work: Workload, name: str, wanted: DeviceRequest
) -> RunningPod:
    """Run a pod to its end, and compare the GPU file in its container with the driver's."""
    seen = await work.run(name, wanted)
    given = {number for path, number in seen.devices.items() if _GPU_FILE.fullmatch(path)}
    right = {
        f"195:{minor}" for minor in installation.hardware.minors(seen.environment["APPORTION_PART_UUID"])
    }
    if given != right:
        raise TestbedError(f"the container of pod {name} has the GPU files {given}, and its claim {right}")
    await work.delete(name)
    return seen


async def _well(installation: RealNodeInstallation, device: str) -> None:
    await eventually(
        lambda: installation.taints(device), lambda keys: keys is not None and SICK not in keys, within=60
    )


def gpu_uuid(installation: RealNodeInstallation, index: int) -> str:
    """Return the UUID of a GPU by its index in the fake driver."""
    uuid: str = installation.hardware.nvml.read().gpu[index].uuid.decode()
    return uuid
