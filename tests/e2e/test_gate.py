"""The gate: where it is added, when it goes, and that nothing needs it."""

from collections.abc import AsyncIterator

import pytest

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.clusterobjects import bound
from tests.e2e.tenant import (
    CLASSES,
    GATE,
    MIG,
    NPU,
    PATIENCE,
    SLICES,
    Tenant,
    claim,
    device_class,
    device_slice,
    devices,
    gates,
    pod,
    profile,
    request,
)

OTHER_CLASS, OTHER_DRIVER = "others.example.com", "others.example.com"


@pytest.fixture
async def others(installation: Installation) -> AsyncIterator[str]:
    """Publish devices of somebody else's driver; returns the name of their class."""
    api = installation.cluster.api
    spare = [{"name": f"spare-{index}"} for index in range(4)]
    await api.create(CLASSES, device_class(OTHER_CLASS, f'device.driver == "{OTHER_DRIVER}"', managed=False))
    await api.create(SLICES, device_slice("others", OTHER_DRIVER, *spare))
    yield OTHER_CLASS
    await api.delete(f"{SLICES}/others")
    await api.delete(f"{CLASSES}/{OTHER_CLASS}")


async def test_only_labelled_namespaces_get_the_gate(team: Tenant, plain: Tenant) -> None:
    """And there only pods with claims."""
    made = [await tenant.make(pod("claims", "missing")) for tenant in (team, plain)]
    without = await team.make(pod("none"))

    assert [gates(each) for each in made] == [[GATE], []]
    assert gates(without) == []


async def test_pods_without_managed_claims_lose_the_gate_at_once(team: Tenant, others: str) -> None:
    """Admission cannot look into claims; the operator can. Seconds at most, and the scheduler does the rest."""
    await team.make(claim("other", request(others)))
    made = await team.make(pod("other", "other"))

    await eventually(lambda: team.pod("other"), lambda found: not gates(found), within=PATIENCE)

    assert gates(made) == [GATE]
    await bound(team, "other")
    await team.end_by_force("other")


async def test_a_pod_is_nominated_for_the_node_of_its_devices(team: Tenant) -> None:
    """So kube-scheduler looks at one node, and not at all of them. This pod waits for another scheduler, which never comes."""
    await team.make(claim("npu", request(NPU)))
    await team.make(pod("p", "npu", schedulerName="nobody"))

    found = await eventually(lambda: team.pod("p"), lambda found: not gates(found))

    [device] = devices(await team.claim("npu"))
    assert device.startswith(found["status"]["nominatedNodeName"] + "/")
    await team.end_by_force("p")


async def test_other_gates_go_first(team: Tenant) -> None:
    """A queue's gate beside ours: the pod is no demand until that one is gone."""
    await team.make(claim("held", request(NPU)))
    await team.make(pod("held", "held", gates=["queue.example.com/admission"]))
    await team.make(claim("later", request(NPU)))
    await team.make(pod("later", "later"))
    await team.running("later")

    before = await team.pod("held")
    assert gates(before) == ["queue.example.com/admission", GATE]
    assert devices(await team.claim("held")) == []

    await team.installation.cluster.api.patch(
        f"/api/v1/namespaces/{team.namespace}/pods/held",
        [{"op": "remove", "path": "/spec/schedulingGates/0"}],
        "json",
    )
    await team.running("held")


async def test_the_guard_alone_does_it_elsewhere(plain: Tenant) -> None:
    """Without the label and the gate a pod with two managed claims runs, both on one node."""
    await plain.make(claim("one", request(MIG, profile("1g.10gb"))))
    await plain.make(claim("two", request(MIG, profile("2g.20gb"))))
    made = await plain.make(pod("both", "one", "two"))

    [running] = await plain.running("both")
    places = [*await plain.allocated("one"), *await plain.allocated("two")]

    assert gates(made) == []
    assert {place.split("/")[0] for place in places} == {running["spec"]["nodeName"]}


@pytest.mark.parametrize("labelled", [True, False], ids=["gated", "ungated"])
async def test_a_pod_may_mix_our_claims_and_others(
    team: Tenant, plain: Tenant, others: str, *, labelled: bool
) -> None:
    """We allocate ours, kube-scheduler the other one, and the pod is bound."""
    tenant = team if labelled else plain
    await tenant.make(claim("ours", request(NPU)))
    await tenant.make(claim("theirs", request(others)))
    await tenant.make(pod("mixed", "ours", "theirs"))

    found = await bound(tenant, "mixed")
    ours = await tenant.allocated("ours")

    assert ours[0].split("/")[0] == found["spec"]["nodeName"]
    assert await tenant.allocated("theirs")
    await tenant.end_by_force("mixed")
