"""Two pods on one GPU at once, on a real kubelet and containerd."""

from collections.abc import AsyncIterator

import pytest

from testbed.eventually import eventually
from testbed.realnode.installation import POLICIES, RealNodeInstallation
from testbed.realnode.workload import Workload, share

GIB = 2**30


@pytest.fixture
async def shared_gpu(installation: RealNodeInstallation) -> AsyncIterator[None]:
    """Share the node's GPU while the test runs."""
    api = installation.cluster.api
    entry = {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": installation.name}}, "mostClaims": 3}
    spec = {"deviceClasses": {"names": ["none"]}, "sharing": [entry]}
    body = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "shared"},
        "spec": spec,
    }
    await api.create(POLICIES, body, fieldValidation="Strict")
    try:
        yield
    finally:
        await api.delete(f"{POLICIES}/shared")

        async def whole() -> bool:
            devices = [d for s in await installation.slices() for d in s["spec"].get("devices", ())]
            return all("allowMultipleAllocations" not in device for device in devices)

        await eventually(whole)


@pytest.mark.usefixtures("shared_gpu")
async def test_two_pods_run_on_one_gpu_at_once_and_each_knows_its_part(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """The same device files, different shares; kubelet takes both; nothing stays of either."""
    ten, twenty = await work.run("ten", share("10Gi")), await work.run("twenty", share("20Gi"))
    assert (ten.device, twenty.device) == ("gpu-0", "gpu-0")
    assert ten.devices == twenty.devices
    assert "/dev/nvidia0" in ten.devices
    shares = []
    for seen, gib in ((ten, 10), (twenty, 20)):
        (result,) = seen.claim["status"]["allocation"]["devices"]["results"]
        shares.append(result["shareID"])
        assert seen.environment["APPORTION_PART_SHARE"] == result["shareID"]
        assert seen.environment["APPORTION_PART_MEMORY"] == str(gib * GIB)
        (content,) = seen.metadata.values()
        assert result["shareID"] in content
    assert shares[0] != shares[1]
    assert (await work.pod("ten"))["status"]["phase"] == "Running"
    await work.delete("ten")
    assert (await work.pod("twenty"))["status"]["phase"] == "Running"
    assert len(installation.cdi()) == 1
    await work.delete("twenty")
    await installation.nothing_left(warm=True)
