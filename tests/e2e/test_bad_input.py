"""Bad input gets an answer that names object, field and reason, and nothing else stops working."""

from typing import Any

import pytest

from testbed.errors import ApiError
from testbed.installation import Installation
from tests.e2e.clusterobjects import condition, objects, served_beside
from tests.e2e.tenant import (
    CLASSES,
    GPU,
    NPU,
    OWN,
    SLICES,
    Tenant,
    claim,
    device_class,
    device_slice,
    devices,
    pod,
    request,
)

LAYOUTS, POLICIES = f"{OWN}/partitionlayouts", f"{OWN}/allocationpolicies"
DRIVER = "broken.example.com"


async def test_an_unknown_class(team: Tenant) -> None:
    """The Event names claim, field and class."""
    await team.make(claim("typo", request("gpu.aportion.dev")))
    await team.make(pod("typo", "typo"))

    await team.event(
        "typo", "UnknownClass", f"{team.namespace}/typo", "spec.devices.requests", "gpu.aportion.dev"
    )
    await served_beside(team)
    assert (await team.pod("typo"))["spec"]["schedulingGates"]


async def test_cel_that_does_not_compile_is_refused_by_the_api_server(
    installation: Installation, team: Tenant
) -> None:
    """So it never reaches us from claims and classes; a layout's expression does."""
    with pytest.raises(ApiError, match="expression"):
        await team.make(claim("syntax", request(GPU, "device.attributes[")))
    layout = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "PartitionLayout",
        "metadata": {"name": "syntax"},
        "spec": {
            "devices": [{"cel": {"expression": "device.attributes["}}],
            "partitions": [{"profile": "1g.10gb", "count": 1}],
        },
    }
    async with objects(installation, (LAYOUTS, layout)):
        found = await condition(installation, f"{LAYOUTS}/syntax", "Accepted")
        await team.event("syntax", "BrokenLayout", "syntax", "spec.devices[0].cel.expression")
        await served_beside(team)

    assert found["reason"] == "Broken"
    assert "spec.devices[0].cel.expression" in found["message"]


@pytest.mark.parametrize("driver", [GPU, NPU, "one.example.com", "two.example.com", "three.example.com"])
async def test_parameters_that_no_agent_keeps_are_refused_for_every_driver_that_agents_have(
    team: Tenant, driver: str
) -> None:
    """Ours, and those that several options name: each of them adds to the others."""
    made = claim("odd", request(GPU))
    parameters = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "OddConfig"}
    made["spec"]["devices"]["config"] = [{"opaque": {"driver": driver, "parameters": parameters}}]
    await team.make(made)
    await team.make(pod("odd", "odd"))

    await team.event(
        "odd", "RefusedConfiguration", "spec.devices.config[0].opaque.parameters.kind", "OddConfig"
    )
    assert devices(await team.claim("odd")) == []


async def test_a_selector_that_errs_at_run_time(team: Tenant) -> None:
    """The claim's own selector reads an attribute that no device has."""
    missing = 'device.attributes["gpu.apportion.dev"].colour == "green"'
    await team.make(claim("colour", request(GPU, missing)))
    await team.make(pod("colour", "colour"))

    await team.event(
        "colour",
        "NotAllocated",
        f"{team.namespace}/colour",
        "spec.devices.requests[0].exactly.selectors[0]",
        "no such key",
    )
    await served_beside(team)
    assert devices(await team.claim("colour")) == []


async def test_a_class_whose_selector_errs_at_run_time(installation: Installation, team: Tenant) -> None:
    """The Event on the claim names the class."""
    missing = 'device.attributes["npu.apportion.dev"].colour == "green"'
    bad = device_class("errs", f'device.driver == "npu.apportion.dev" && {missing}')
    async with objects(installation, (CLASSES, bad)):
        await team.make(claim("errs", request("errs")))
        await team.make(pod("errs", "errs"))

        await team.event("errs", "NotAllocated", "class errs", "selector #0", "colour")
        await served_beside(team)


DEVICE = {"name": "one"}
NEEDY = {"name": "one", "consumesCounters": [{"counterSet": "absent", "counters": {"c": {"value": "1"}}}]}
BROKEN = {
    "duplicate": (
        [
            device_slice("broken-a", DRIVER, DEVICE, pool={"name": "broken", "resourceSliceCount": 2}),
            device_slice("broken-b", DRIVER, DEVICE, pool={"name": "broken", "resourceSliceCount": 2}),
        ],
        ["broken-b", "spec.devices[0].name", "one", "twice"],
    ),
    "unknown counters": (
        [device_slice("broken-a", DRIVER, NEEDY, pool={"name": "broken"})],
        ["broken-a", "spec.devices[0].consumesCounters", "absent"],
    ),
    "incomplete": (
        [device_slice("broken-a", DRIVER, DEVICE, pool={"name": "broken", "resourceSliceCount": 2})],
        ["broken-a", "spec.pool.resourceSliceCount", "not all slices"],
    ),
}


@pytest.mark.parametrize("flaw", BROKEN)
async def test_broken_slices(installation: Installation, team: Tenant, flaw: str) -> None:
    """The pool is left out, and an Event on its slices says why, and which has the error; the same class's other pools go on."""
    slices, words = BROKEN[flaw]
    own = device_class("broken", f'device.driver == "{DRIVER}"')
    good = device_slice("sound", DRIVER, {"name": "sound"})
    async with objects(installation, (CLASSES, own), *((SLICES, each) for each in slices)):
        await team.make(claim("hopeful", request("broken")))
        # Nobody plays this driver's plugin: what counts is the allocation.
        await team.make(pod("hopeful", "hopeful", schedulerName="nobody"))

        await team.event("broken-a", "BrokenPool", *words)
        await team.event("hopeful", "NotAllocated")
        await served_beside(team)
        before = devices(await team.claim("hopeful"))
        async with objects(installation, (SLICES, good)):
            after = await team.allocated("hopeful")
            await team.delete("Pod", "hopeful")

    assert before == []
    assert after == ["sound-pool/sound"]


async def test_a_layout_that_cannot_fit(installation: Installation, team: Tenant) -> None:
    """Five halves of one card."""
    layout = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "PartitionLayout",
        "metadata": {"name": "five-halves"},
        "spec": {"partitions": [{"profile": "3g.40gb", "count": 5}]},
    }
    async with objects(installation, (LAYOUTS, layout)):
        found = await condition(installation, f"{LAYOUTS}/five-halves", "Accepted")
        await team.event("five-halves", "BrokenLayout", "five-halves", "spec.partitions[0].count", "3g.40gb")
        await served_beside(team)

    assert found["reason"] == "DoesNotFit"
    assert "spec.partitions[0].count" in found["message"]


async def test_a_policy_that_overlaps_another(installation: Installation, team: Tenant) -> None:
    """The older one counts; the younger one says so."""

    def policy(name: str) -> dict[str, Any]:
        return {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "AllocationPolicy",
            "metadata": {"name": name},
            "spec": {"deviceClasses": {"names": [NPU]}},
        }

    async with objects(installation, (POLICIES, policy("a-older")), (POLICIES, policy("b-younger"))):
        found = await condition(installation, f"{POLICIES}/b-younger", "Accepted")
        await team.event("b-younger", "Overlap", "spec.deviceClasses", NPU, "a-older")
        await served_beside(team)

    assert found["reason"] == "Overlap"
    assert NPU in found["message"]


async def test_a_policy_that_keeps_a_profile_warm_which_nothing_offers(
    installation: Installation, team: Tenant
) -> None:
    """Condition and Event name field and probable meaning; the policy is accepted, and a class of it is managed."""
    policy = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "mistyped"},
        "spec": {
            "deviceClasses": {"names": [NPU]},
            "partitions": {"warm": [{"profile": "1g.10bg", "count": 1}]},
        },
    }
    async with objects(installation, (POLICIES, policy)):
        found = await condition(installation, f"{POLICIES}/mistyped", "Resolved")
        await team.event("mistyped", "Unresolved", "spec.partitions.warm[0].profile", "did you mean 1g.10gb?")
        status = (await installation.cluster.api.get(f"{POLICIES}/mistyped"))["status"]
        await served_beside(team)

    assert found["reason"] == "NotPublished"
    assert {each["type"]: each["status"] for each in status["conditions"]}["Accepted"] == "True"
    assert status["managedClasses"] == [NPU]


async def test_a_claim_that_mixes_managed_and_other_classes(installation: Installation, team: Tenant) -> None:
    """Nobody can allocate both kinds: it is left alone, and its pod keeps its gate."""
    other = device_class("foreign", 'device.driver == "foreign.example.com"', managed=False)
    async with objects(installation, (CLASSES, other)):
        await team.make(claim("mixes", request(NPU, name="ours"), request("foreign", name="theirs")))
        await team.make(pod("mixes", "mixes"))

        await team.event(
            "mixes", "MixedClasses", f"{team.namespace}/mixes", "spec.devices.requests", NPU, "foreign"
        )
        await served_beside(team)
        assert devices(await team.claim("mixes")) == []
