"""Devices of a pod are close to each other, by the ladder of the policy or the usual one."""

from collections.abc import AsyncIterator

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.clusterobjects import device_attributes
from tests.e2e.tenant import OWN, PATIENCE, Tenant, claim, device_class, request

ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
IMMEDIATE = {"apportion.dev/allocation": "Immediate"}
CLASS = "any-gpu.example.com"


@pytest.fixture
async def far(installation: Installation) -> AsyncIterator[Json]:
    """Make a class of GPUs whose policy finds those of one NUMA node close, and nothing else."""
    api = installation.cluster.api
    made = device_class(
        CLASS, "device.driver == 'gpu.apportion.dev' && device.attributes['gpu.apportion.dev'].type == 'gpu'"
    )
    await api.create("/apis/resource.k8s.io/v1/deviceclasses", made)
    policy = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "far"},
        "spec": {"deviceClasses": {"names": [CLASS]}, "strategy": "Spread", "ladder": [{"attribute": NUMA}]},
    }
    yield await api.create(f"{OWN}/allocationpolicies", policy)
    await api.delete(f"{OWN}/allocationpolicies/far")
    await api.delete(f"/apis/resource.k8s.io/v1/deviceclasses/{CLASS}")


async def test_two_gpus_sit_behind_one_pcie_root_without_any_policy(
    installation: Installation, team: Tenant
) -> None:
    """The first GPU of a root is taken, so the strategy alone would break the next one."""
    await team.make(claim("one", request("gpu.apportion.dev"), annotations=IMMEDIATE))
    await team.allocated("one")
    await team.make(claim("two", request("gpu.apportion.dev", count=2), annotations=IMMEDIATE))

    one, *two = await device_attributes(
        installation, [*await team.allocated("one"), *await team.allocated("two")]
    )

    assert two[0][ROOT] == two[1][ROOT] != one[ROOT]


async def test_a_policys_ladder_is_obeyed(installation: Installation, team: Tenant, far: Json) -> None:
    """Spread would deal four GPUs over both NUMA nodes; the ladder keeps them on one."""
    assert far["spec"]["ladderScope"] == "Cluster"
    # A claim that comes before the operator has seen the policy would have the usual ladder.
    await eventually(
        lambda: installation.cluster.api.get(f"{OWN}/allocationpolicies/far"),
        lambda found: found.get("status", {}).get("managedClasses") == [CLASS],
        within=PATIENCE,
    )
    await team.make(claim("four", request(CLASS, count=4), annotations=IMMEDIATE))

    four = await device_attributes(installation, await team.allocated("four"))

    assert len({place[NUMA] for place in four}) == 1
    assert len({place[ROOT] for place in four}) > 1
