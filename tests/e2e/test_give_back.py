"""Give-back: what nobody wants any more is free again; what was asked for without a pod stays."""

from collections.abc import AsyncIterator

import pytest

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import (
    CLASSES,
    GATE,
    MIG,
    NPU,
    OWN,
    PARTITIONS,
    PATIENCE,
    Tenant,
    chip,
    claim,
    device_class,
    devices,
    pod,
    profile,
    request,
)

POLICIES = f"{OWN}/allocationpolicies"
WHOLE = 'device.driver == "npu.apportion.dev" && device.attributes["npu.apportion.dev"].type == "npu"'
OWN_FINALIZER = "apportion.dev/allocation"


@pytest.fixture
async def hasty(installation: Installation) -> AsyncIterator[str]:
    """Make a class whose policy gives unused allocations back after a second."""
    api = installation.cluster.api
    await api.create(CLASSES, device_class("hasty", WHOLE))
    await api.create(
        POLICIES,
        {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "AllocationPolicy",
            "metadata": {"name": "hasty"},
            "spec": {"deviceClasses": {"names": ["hasty"]}, "unusedTimeout": "1s"},
        },
    )
    yield "hasty"
    await api.delete(f"{POLICIES}/hasty")
    await api.delete(f"{CLASSES}/hasty")


@pytest.mark.parametrize("labelled", [True, False], ids=["gated", "ungated"])
async def test_what_nobody_reserved_and_no_pod_needs_is_given_back(
    team: Tenant, plain: Tenant, hasty: str, *, labelled: bool
) -> None:
    """controller-manager clears only what was once reserved; this never was."""
    tenant = team if labelled else plain
    await tenant.make(claim("unused", request(hasty, chip("910B4", 2))))
    # Nobody schedules this pod, so nobody reserves the claim.
    await tenant.make(pod("never", "unused", schedulerName="nobody"))
    assert await tenant.allocated("unused") == ["ascend-910b4-a/npu-2"]

    await tenant.delete("Pod", "never")

    await tenant.unallocated("unused")
    await tenant.event("unused", "GivenBack")
    await tenant.make(claim("next", request(NPU, chip("910B4", 2))))
    await tenant.make(pod("next", "next"))
    await tenant.running("next")


async def test_a_pod_that_no_scheduler_takes_yields_to_one_that_waits(team: Tenant, hasty: str) -> None:
    """As kube-scheduler would, which holds nothing for a pod that cannot start."""
    await team.make(claim("kept", request(hasty, chip("910B4", 2))))
    await team.make(pod("never", "kept", schedulerName="nobody"))
    assert await team.allocated("kept") == ["ascend-910b4-a/npu-2"]

    await team.make(claim("next", request(NPU, chip("910B4", 2))))
    await team.make(pod("next", "next"))

    await team.running("next")
    await team.event("kept", "GivenBack", "others wait")
    await team.event("never", "ClaimsNotAllocated", "given back")


async def test_a_pod_of_an_unknown_scheduler_holds_nothing_and_is_warned(team: Tenant) -> None:
    """A typing error is read in the pod's Events."""
    await team.make(claim("c", request(NPU)))
    await team.make(pod("lost", "c", schedulerName="mistyped"))
    await team.event("lost", "UnknownScheduler", "mistyped", "--schedulers")
    assert devices(await team.claim("c")) == []


async def test_an_immediate_claim_keeps_its_device_between_pods(
    installation: Installation, team: Tenant
) -> None:
    """Two pods, one after the other, get the same partition; deleting the claim sets everything free."""
    made = await team.make(claim("mine", request(MIG, profile("1g.20gb")), annotations={GATE: "Immediate"}))
    first = await team.allocated("mine")
    for name in ("one", "two"):
        await team.make(pod(name, "mine"))
        await team.running(name)
        await team.delete("Pod", name)
        # controller-manager takes the reservation, in its own time.
        kept = await eventually(
            lambda: team.claim("mine"), lambda now: not now["status"].get("reservedFor"), within=PATIENCE
        )
    still = await team.allocated("mine")

    assert made["metadata"].get("finalizers", []) == []
    assert kept["metadata"]["finalizers"] == [OWN_FINALIZER]
    assert still == first

    await team.delete("ResourceClaim", "mine")

    async def held() -> list[str]:
        found, _ = await installation.cluster.api.items(PARTITIONS)
        uid = made["metadata"]["uid"]
        return [
            each["metadata"]["name"] for each in found if (each["spec"].get("holder") or {}).get("uid") == uid
        ]

    assert await eventually(held, lambda names: not names, within=PATIENCE) == []
