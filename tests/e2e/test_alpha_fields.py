"""Attributes with lists, and compatibility groups, on a control plane whose feature gates let the API server keep them."""

from collections.abc import AsyncIterator

import pytest

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.components import APISERVER, CONTROLLER_MANAGER, SCHEDULER
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import h100
from testbed.installation import Installation
from tests.e2e.tenant import (
    CLASSES,
    GATE,
    LEASE,
    MANAGED,
    SLICES,
    Tenant,
    claim,
    device_class,
    device_slice,
    request,
    serving,
)

_GATES = ("--feature-gates=DRAListTypeAttributes=true,DRADeviceCompatibilityGroups=true",)
_DRIVER = "nic.example.com"
_ROOTS = "resource.kubernetes.io/pcieRoots"


@pytest.fixture(scope="module")
async def installation(binaries: Binaries) -> AsyncIterator[Installation]:
    """Install with one node."""
    flags = dict.fromkeys((APISERVER, CONTROLLER_MANAGER, SCHEDULER), _GATES)
    async with (
        ControlPlane(binaries=binaries, flags=flags) as cluster,
        Installation(cluster, [h100("one")], operator_options=LEASE) as installed,
    ):
        await serving(installed)
        yield installed


async def test_a_claim_gets_the_devices_whose_lists_have_a_value_in_common(
    installation: Installation,
) -> None:
    cluster = installation.cluster
    team = Tenant(installation, await cluster.make_namespace("lists", MANAGED))
    await cluster.api.create(CLASSES, device_class("nic", f'device.driver == "{_DRIVER}"'))
    roots = {"a": ["left", "both"], "b": ["right"], "c": ["both", "right"]}
    rows = [{"name": name, "attributes": {_ROOTS: {"strings": each}}} for name, each in roots.items()]
    await cluster.api.create(SLICES, device_slice("nics", _DRIVER, *rows))

    asked = claim(
        "two",
        request("nic", 'device.attributes["resource.kubernetes.io"].pcieRoots.includes("both")', count=2),
    )
    asked["spec"]["devices"]["constraints"] = [{"matchAttribute": _ROOTS}]
    asked["metadata"]["annotations"] = {GATE: "Immediate"}
    await team.make(asked)

    assert sorted(await team.allocated("two")) == ["nics-pool/a", "nics-pool/c"]


async def test_devices_of_one_card_are_given_out_together_only_with_a_common_group(
    installation: Installation,
) -> None:
    """The second claim waits as long as the first one has the part of another mode."""
    cluster = installation.cluster
    team = Tenant(installation, await cluster.make_namespace("groups", MANAGED))
    await cluster.api.create(CLASSES, device_class("part", 'device.driver == "part.example.com"'))
    rows = [
        {
            "name": mode,
            "attributes": {"mode": {"string": mode}},
            "consumesCounters": [
                {
                    "counterSet": "card",
                    "counters": {"memory": {"value": "1"}},
                    "compatibilityGroups": [mode],
                }
            ],
        }
        for mode in ("mig", "mps")
    ]
    pool = {"name": "cards", "resourceSliceCount": 2}
    counters = device_slice("cards-counters", "part.example.com", pool=pool)
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "card", "counters": {"memory": {"value": "9"}}}]
    await cluster.api.create(SLICES, counters)
    await cluster.api.create(SLICES, device_slice("cards-devices", "part.example.com", *rows, pool=pool))

    def asked(mode: str) -> Json:
        selector = f'device.attributes["part.example.com"].mode == "{mode}"'
        return claim(mode, request("part", selector), annotations={GATE: "Immediate"})

    await team.make(asked("mig"))
    assert await team.allocated("mig") == ["cards/mig"]
    await team.make(asked("mps"))
    await team.event("mps", "NotAllocated", "compatibility groups")

    await team.delete("ResourceClaim", "mig")

    assert await team.allocated("mps") == ["cards/mps"]
