"""The guard: kube-scheduler cannot choose our devices; who gets past it is counted, served and told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from testbed.installation import Installation
from tests.e2e.tenant import MIG, NPU, PATIENCE, Tenant, chip, claim, devices, pod, profile, request, serving

KEYLESS = [{"operator": "Exists"}]
"""Tolerates every taint, so the guard as well (resource.k8s.io/v1 DeviceToleration)."""
GPU_3 = 'device.attributes["resource.kubernetes.io"].pciBusID == "0000:1b:00.0"'
"""gpu-3 of an H100 node."""


@asynccontextmanager
async def no_operator(installation: Installation) -> AsyncIterator[None]:
    """Stop every operator, and start them again."""
    for operator in installation.operators:
        await operator.stop()
    try:
        yield
    finally:
        for operator in installation.operators:
            operator.start()
        await serving(installation)


async def test_the_default_scheduler_cannot_take_our_devices(
    installation: Installation, plain: Tenant
) -> None:
    """Without an operator the pod stays pending and its claim unallocated; with it, both go on."""
    async with no_operator(installation):
        await plain.make(claim("npu", request(NPU)))
        await plain.make(pod("waits", "npu"))

        said = await plain.unschedulable("waits")

        assert "cannot allocate all claims" in said
        assert devices(await plain.claim("npu")) == []
    await plain.running("waits")


async def test_who_gets_past_the_guard_is_counted_served_and_warned(
    installation: Installation, plain: Tenant
) -> None:
    """A keyless toleration lets kube-scheduler allocate; afterwards nobody else gets that device, and the pod runs."""
    only = request(NPU, chip("910B4", 3), tolerations=KEYLESS)
    async with no_operator(installation):
        await plain.make(claim("past", only))
        await plain.make(pod("past", "past"))
        taken = await plain.allocated("past")
    await plain.make(claim("second", request(NPU, chip("910B4", 3))))
    await plain.make(pod("second", "second"))

    await plain.event("past", "ForeignAllocation", "kube-scheduler", "guard")
    await plain.running("past")
    await plain.event("second", "NotAllocated")

    assert taken == ["ascend-910b4-a/npu-3"]
    assert devices(await plain.claim("second")) == []


async def test_a_partition_that_the_scheduler_chose_is_cut(installation: Installation, plain: Tenant) -> None:
    """kube-scheduler knows nothing of cutting: the operator makes the Partition for its allocation."""
    async with no_operator(installation):
        await plain.make(claim("past", request(MIG, profile("7g.80gb"), GPU_3, tolerations=KEYLESS)))
        await plain.make(pod("past", "past"))
        [device] = await plain.allocated("past")
    [running] = await plain.running("past", within=PATIENCE)

    cut = installation.hardware(running["spec"]["nodeName"])

    assert device == f"{running['spec']['nodeName']}/gpu-3-mig-7g80gb-0-0"
    assert ("gpu-3", "7g.80gb") in {(row["card"], row["profile"]) for row in cut}
