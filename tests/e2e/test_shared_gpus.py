"""GPUs of a node that serve several claims: the operator places parts, the agent prepares them, and what does not fit waits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.clusterobjects import objects
from tests.e2e.tenant import GPU, OWN, PATIENCE, SLICES, Tenant, claim, devices, pod, request

NODE = "h100-b"
MOST = 4
SHARED = "device.allowMultipleAllocations"
FIRST = f'{SHARED} && device.attributes["resource.kubernetes.io"].pciBusID == "0000:18:00.0"'
"""gpu-0 of the node."""


@asynccontextmanager
async def sharing(installation: Installation) -> AsyncIterator[None]:
    """Share the GPUs of one node, and wait until they are published so, and afterwards as before."""
    api = installation.cluster.api
    policy = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "shared"},
        "spec": {
            "deviceClasses": {"names": ["none"]},
            "sharing": [
                {"nodeSelector": {"matchLabels": {"example.com/gpus": "shared"}}, "mostClaims": MOST}
            ],
        },
    }

    async def count() -> int:
        slices, _ = await api.items(SLICES, fieldSelector=f"spec.nodeName={NODE}")
        rows = (row for each in slices for row in each["spec"].get("devices", ()))
        return sum(row.get("allowMultipleAllocations", False) for row in rows)

    await api.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"example.com/gpus": "shared"}}})
    async with objects(installation, (f"{OWN}/allocationpolicies", policy)):
        await eventually(count, lambda found: found == 8, within=PATIENCE)
        yield
    await eventually(count, lambda found: found == 0, within=PATIENCE)


@pytest.fixture
async def shared(installation: Installation) -> AsyncIterator[None]:
    """Share the GPUs of one node while the test runs."""
    async with sharing(installation):
        yield


def part(memory: str, *selectors: str) -> Json:
    """Return a request for a part of a shared GPU."""
    return request(GPU, *(selectors or (FIRST,)), capacity={"requests": {"memory": memory}})


@pytest.mark.usefixtures("shared")
async def test_two_pods_share_a_gpu_and_a_third_that_asks_too_much_waits(team: Tenant) -> None:
    """10Gi and 20Gi of one GPU run at once; 60Gi more wait with the reason, until there is room."""
    for name, memory in (("ten", "10Gi"), ("twenty", "20Gi"), ("sixty", "60Gi")):
        await team.make(claim(name, part(memory)))
    for name in ("ten", "twenty"):
        await team.make(pod(name, name))
    await team.running("ten", "twenty")
    await team.make(pod("sixty", "sixty"))

    said = await team.event("sixty", "NotAllocated")
    assert "capacity" in said["message"]
    results = [
        (await team.claim(name))["status"]["allocation"]["devices"]["results"][0]
        for name in ("ten", "twenty")
    ]
    assert [(each["device"], each["consumedCapacity"]["memory"]) for each in results] == [
        ("gpu-0", "10Gi"),
        ("gpu-0", "20Gi"),
    ]
    assert len({each["shareID"] for each in results}) == 2

    await team.delete("Pod", "twenty")
    await team.delete("ResourceClaim", "twenty")
    await team.running("sixty")
    assert (await team.pod("ten"))["status"]["phase"] == "Running"


@pytest.mark.usefixtures("shared")
async def test_claims_that_ask_for_no_memory_get_equal_parts(team: Tenant) -> None:
    """As many as the policy says run on one GPU; the next one waits, though it asks for little."""
    names = [f"equal-{number}" for number in range(MOST)]
    for name in names:
        await team.make(claim(name, request(GPU, FIRST)))
        await team.make(pod(name, name))
    await team.running(*names)
    found = [await team.claim(name) for name in names]
    assert {device for each in found for device in devices(each)} == {f"{NODE}/gpu-0"}
    parts = {
        each["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"]["memory"] for each in found
    }
    assert parts == {"20389Mi"}
    await team.make(claim("little", part("1Mi")))
    await team.make(pod("little", "little"))
    await team.event("little", "NotAllocated")


async def test_a_share_outlives_its_policy_and_is_no_overlap(
    installation: Installation, team: Tenant
) -> None:
    """The GPU is published for one claim while two have parts of it: both run on, nobody else gets it, nothing is reported."""
    async with sharing(installation):
        for name in ("one", "two"):
            await team.make(claim(name, part("10Gi")))
            await team.make(pod(name, name))
        await team.running("one", "two")
    whole = FIRST.removeprefix(f"{SHARED} && ")
    on_node = f'{whole} && device.attributes["gpu.apportion.dev"].type == "gpu"'
    await team.make(claim("whole", request(GPU, on_node)))
    await team.make(pod("whole", "whole", nodeSelector={"kubernetes.io/hostname": NODE}))
    await team.event("whole", "NotAllocated")
    assert [devices(await team.claim(name)) for name in ("one", "two")] == [[f"{NODE}/gpu-0"]] * 2
    events, _ = await installation.cluster.api.items(f"/api/v1/namespaces/{team.namespace}/events")
    assert not [each for each in events if each["reason"] == "Overlap"]
    for name in ("one", "two"):
        await team.delete("Pod", name)
        await team.delete("ResourceClaim", name)
    await team.running("whole")
