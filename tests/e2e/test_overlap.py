"""Overlaps: nothing in Kubernetes stops a second allocation of a device, so the operator finds it."""

from testbed.installation import Installation
from tests.e2e.clusterobjects import allocate_by_hand
from tests.e2e.tenant import NPU, Tenant, chip, claim, devices, pod, request


async def test_the_later_allocation_that_nobody_reserved_is_cleared(
    installation: Installation, team: Tenant
) -> None:
    """The pod that has the device keeps it."""
    await team.make(claim("first", request(NPU, chip("910B4", 5))))
    await team.make(pod("first", "first"))
    await team.running("first")
    await team.make(claim("second", request(NPU, chip("910B4", 5))))

    await allocate_by_hand(team, "second", (await team.claim("first"))["status"]["allocation"])

    await team.unallocated("second")
    await team.event("second", "Overlap", "npu-5", "given back")
    assert devices(await team.claim("first")) == ["ascend-910b4-a/npu-5"]
    assert (await team.pod("first"))["status"]["phase"] == "Running"


async def test_two_reserved_allocations_are_reported_on_both(
    installation: Installation, team: Tenant
) -> None:
    """Clearing one could break a running pod: the node refuses the later one, and an Event says what to do."""
    await team.make(claim("first", request(NPU, chip("910B4", 6))))
    await team.make(pod("first", "first"))
    await team.running("first")
    await team.make(claim("second", request(NPU, chip("910B4", 6))))
    second = await team.make(pod("second", "second", gates=["example.com/never"]))
    consumer = {"resource": "pods", "name": "second", "uid": second["metadata"]["uid"]}

    await allocate_by_hand(
        team, "second", (await team.claim("first"))["status"]["allocation"], reservedFor=[consumer]
    )

    for name in ("first", "second"):
        await team.event(name, "Overlap", "npu-6", f"{team.namespace}/first", f"{team.namespace}/second")
    assert devices(await team.claim("first")) == ["ascend-910b4-a/npu-6"]
    assert devices(await team.claim("second")) == ["ascend-910b4-a/npu-6"]
