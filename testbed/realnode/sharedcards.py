"""Devices that are more than a file, on a real node: a GPU that two pods share through MPS, and a NIC whose interface goes into its pod.

In: an installation, pods. Out: nothing; a TestbedError says what was wrong. Each leaves the node as it was.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.fakes.rdma import RdmaHost
from testbed.hostnetwork import host_network
from testbed.realnode.installation import POLICIES, RealNodeInstallation
from testbed.realnode.mpshost import mps_host
from testbed.realnode.workload import Workload, network_device, share

_GIB: Final = 2**30
_PATIENCE: Final = 60.0


async def share_gpu(installation: RealNodeInstallation, work: Workload) -> None:
    """Two pods use one GPU at once, each with its limits; one ends beside the other; nothing stays of either."""
    async with mps_host(installation), shared_gpus(installation, "MPS"):
        ten, twenty = await work.run("ten", share("10Gi")), await work.run("twenty", share("20Gi"))
        if ten.device != twenty.device or ten.devices != twenty.devices:
            raise TestbedError(f"the pods have {ten.device} and {twenty.device}, not parts of one GPU")
        for seen, gib in ((ten, 10), (twenty, 20)):
            given = (
                seen.environment["APPORTION_PART_MEMORY"],
                seen.environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"],
            )
            if given != (str(gib * _GIB), f"0={gib * 1024}M"):
                raise TestbedError(f"the pod that asked for {gib} GiB has {given}")
        await work.delete("ten")
        if (await work.pod("twenty"))["status"]["phase"] != "Running":
            raise TestbedError("the end of one pod ended the other")
        await work.delete("twenty")
        await installation.nothing_left(warm=True)
        left = [*(installation.node.host.library("apportion") / "mps").iterdir()]
        if left:
            raise TestbedError(f"of the control daemon is left {left}")


async def lend_interface(installation: RealNodeInstallation, work: Workload) -> None:
    """A pod with a network of its own gets the interface with the host's addresses; afterwards the host has it as it was."""
    root = installation.hardware.root
    with host_network() as network:
        host = RdmaHost(root)
        host.add("mlx5_0", "0000:9d:00.0", link="Ethernet", interface=network.name)
        await _restart(installation)
        before = network.on_host()
        seen = await work.run("rail", network_device(interface={"name": "net1"}))
        if network.address not in seen.interfaces.get("net1", ""):
            raise TestbedError(f"the pod has {seen.interfaces}, not {network.address} on net1")
        if network.on_host():
            raise TestbedError("the interface is in the pod and on the host")
        await work.delete("rail")

        async def there() -> object:
            return network.on_host()

        await eventually(there, lambda found: found == before, within=_PATIENCE)
        host.remove("mlx5_0")
        for folder in ("infiniband", "infiniband_verbs", "infiniband_mad", "misc"):
            shutil.rmtree(root / "sys" / "class" / folder)
        await _restart(installation)


async def _restart(installation: RealNodeInstallation) -> None:
    await installation.agents.pop().stop()
    await installation.agent()


@asynccontextmanager
async def shared_gpus(installation: RealNodeInstallation, strategy: str) -> AsyncIterator[None]:
    """Have the node's GPUs shared among three claims each, by this strategy, while the block lasts."""
    api = installation.cluster.api
    entry = {
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": installation.name}},
        "mostClaims": 3,
        "strategy": strategy,
    }
    body = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "shared"},
        "spec": {"deviceClasses": {"names": ["none"]}, "sharing": [entry]},
    }
    await api.create(POLICIES, body, fieldValidation="Strict")
    try:
        yield
    finally:
        await api.delete(f"{POLICIES}/shared")

        async def whole() -> bool:
            devices = [d for s in await installation.slices() for d in s["spec"].get("devices", ())]
            return all("allowMultipleAllocations" not in device for device in devices)

        await eventually(whole, within=_PATIENCE)
