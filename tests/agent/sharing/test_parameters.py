"""Opaque parameters of an allocation, where kubelet asks for its devices."""

import json
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.agent.devices.sharing import TimeSlice
from apportion.api.deviceconfig import read
from testbed.api import Json
from tests.agent.places import GPU, H100
from tests.agent.simulatednode import MakeNode, SimulatedNode
from tests.drawnparameters import PARAMETERS


def parameters(kind: str = "GpuConfig", *requests: str, driver: str = GPU, **sharing: object) -> Json:
    """Return a `config` entry of an allocation."""
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing or None}
    opaque = {"driver": driver, "parameters": {name: value for name, value in body.items() if value}}
    return {"source": "FromClaim", "requests": [*requests], "opaque": opaque}


def set_up(node: SimulatedNode) -> Json:
    """Return what the simulated hardware is set up as; {} is how it begins."""
    state = json.loads((node.folder / "node.yaml.state.json").read_text())
    found: Json = state.get("sharing", {})
    return found


async def test_a_claim_is_not_prepared_with_parameters_that_would_be_ignored(
    make_node: MakeNode, namespace: str
) -> None:
    """By whom it was allocated does not matter: kubelet shows field and reason at the pod, and nothing is left on the node."""
    device = "gpu-0-mig-2g20gb-14-0"
    refused = {
        "strategy": ([parameters(strategy="Exclusive")], "sharing.strategy: "),
        "limit": (
            [
                parameters(
                    "MigDeviceConfig", strategy="MPS", mpsConfig={"defaultPinnedDeviceMemoryLimit": "1k"}
                )
            ],
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit: 1k is less than 1Mi",
        ),
        "unknown": ([parameters("VfioDeviceConfig")], "kind: 'VfioDeviceConfig' is not known"),
        "part": (
            [parameters("GpuConfig", "r0")],
            f"kind: GpuConfig does not suit device {device} of request r0",
        ),
    }
    async with make_node(cards=[H100]) as node, node.agent():
        for name, (config, why) in refused.items():
            claim = await node.claim(namespace, name, device, config=config)
            error = await node.prepared(claim)
            assert why in error
            assert "status.allocation.devices.config[0].opaque.parameters" in error
        assert node.cdi() == {}
        assert list(node.hardware()) == []


async def test_parameters_that_ask_for_nothing_special_are_no_hindrance(
    make_node: MakeNode, namespace: str
) -> None:
    """Nor are those of other drivers, and a configuration for whole GPUs where a claim has partitions only."""
    config = [
        parameters("GpuConfig", "r0", strategy="TimeSlicing"),
        parameters("MigDeviceConfig"),
        parameters(driver="gpu.example.com", strategy="MPS"),
    ]
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "plain", "gpu-0", config=config)
        assert await node.prepared(claim) == ""


async def test_what_a_later_entry_overrides_is_nobodys_to_honour(make_node: MakeNode, namespace: str) -> None:
    """A class asks for what no device can keep, and the claim for something else: that holds, and where it does not, the class does."""
    bad, good = (
        {"strategy": "Exclusive"},
        {"timeSlicingConfig": {"interval": "Long"}, "strategy": "TimeSlicing"},
    )
    why_bad = "config[{}].opaque.parameters.sharing.strategy"
    cases = {
        "override": ([parameters(**bad), parameters(**good)], ""),
        "named": ([parameters("GpuConfig", "r0", **bad), parameters("GpuConfig", "r0", **good)], ""),
        "order": ([parameters(**good), parameters(**bad)], why_bad.format(1)),
        "kind": ([parameters(**bad), parameters("MigDeviceConfig")], why_bad.format(0)),
        "part": ([parameters(**good), parameters("MigDeviceConfig", "r0")], "MigDeviceConfig does not suit device gpu-0"),
        "suits": ([parameters("MigDeviceConfig", "r0"), parameters(**good)], ""),
    }  # fmt: skip
    async with make_node(cards=[H100]) as node, node.agent():
        for name, (config, why) in cases.items():
            claim = await node.claim(namespace, name, "gpu-0", config=config)
            error = await node.prepared(claim)
            assert why in error, name
            if not why:
                assert (error, set_up(node)) == ("", {"timeSlices": {"gpu-0": 3}}), name
            await node.unprepare(claim)


async def test_a_claim_that_is_prepared_stays_so_whatever_its_parameters(
    make_node: MakeNode, namespace: str
) -> None:
    """Its containers run: an agent that refuses more than the one before takes nothing from them."""
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "runs", "gpu-0")
        uid = claim["metadata"]["uid"]
        first = await node.prepare(claim)
        assert first[uid].error == ""
        for strategy in ("MPS", "Exclusive"):
            await node.deallocate(claim)
            await node.allocate(claim, "gpu-0", config=[parameters(strategy=strategy)])
            assert await node.prepare(claim) == first
            assert set_up(node) == {}


async def test_parameters_are_read_when_a_claim_gets_other_devices_than_were_begun(
    make_node: MakeNode, namespace: str
) -> None:
    """Nobody runs on the first ones: what the second allocation says counts as much as in a first prepare."""
    async with make_node(cards=[H100]) as node, node.agent(prepare_timeout=1):
        claim = await node.claim(namespace, "moved", "gpu-0-mig-2g20gb-14-0")
        assert "no Partition object" in await node.prepared(claim)
        await node.deallocate(claim)
        await node.allocate(claim, "gpu-0", config=[parameters(strategy="Exclusive")])
        assert "sharing.strategy" in await node.prepared(claim)
        assert node.cdi() == {}


@pytest.mark.parametrize(
    ("terms", "requests", "field"),
    [
        (
            {"defaultPerDevicePinnedMemoryLimit": {"2": "1Gi"}},
            ["r0", "r1"],
            "PinnedMemoryLimit: 2 is no device",
        ),
        (
            {"defaultPerDevicePinnedMemoryLimit": {"GPU-other": "1Gi"}},
            ["r0"],
            "GPU-other is no device",
        ),
    ],
    ids=["index", "uuid"],
)
async def test_terms_that_no_device_of_the_claim_can_keep_are_refused(
    make_node: MakeNode, namespace: str, terms: Json, requests: list[str], field: str
) -> None:
    """Which devices a claim has is known when it is allocated; then the agent says what cannot be."""
    config = [parameters("GpuConfig", *requests, strategy="MPS", mpsConfig=terms)]
    async with make_node(cards=[H100, H100]) as node, node.agent():
        claim = await node.claim(namespace, "terms", "gpu-0", "gpu-1", config=config)
        assert field in await node.prepared(claim)
        assert (node.cdi(), set_up(node)) == ({}, {})


async def test_two_configurations_of_one_claim_get_no_two_control_daemons(
    make_node: MakeNode, namespace: str
) -> None:
    """A container finds one daemon: its GPUs have it together, and what holds for all of them is the same for all."""
    entries = [
        parameters("GpuConfig", f"r{n}", strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": 50 + n})
        for n in range(2)
    ]
    async with make_node(cards=[H100, H100]) as node, node.agent():
        claim = await node.claim(namespace, "two", "gpu-0", "gpu-1", config=entries)
        error = await node.prepared(claim)
        assert "config[1].opaque.parameters.sharing.mpsConfig.defaultActiveThreadPercentage" in error
        assert (node.cdi(), set_up(node)) == ({}, {})


@given(drawn=st.lists(PARAMETERS, min_size=8, max_size=8))
@settings(
    max_examples=3,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_whatever_somebody_writes_is_set_up_or_refused_with_its_field(
    make_node: MakeNode, namespace: str, drawn: list[Json]
) -> None:
    """What is prepared shows in what the hardware is set up as; what is refused leaves nothing, and no text ends the agent."""
    async with make_node(cards=[H100]) as node, node.agent():
        for number, body in enumerate(drawn):
            entry = {"source": "FromClaim", "requests": ["r0"], "opaque": {"driver": GPU, "parameters": body}}
            claim = await node.claim(namespace, f"drawn-{uuid4().hex}-{number}", "gpu-0", config=[entry])
            error = await node.prepared(claim)
            if error:
                assert "status.allocation.devices.config[0].opaque.parameters" in error
                assert node.cdi() == {}
                assert set_up(node) == {}
                continue
            found = read(body, field="")
            slices = set_up(node).get("timeSlices", {})
            assert slices == (
                {} if found.time_slice == "Default" else {"gpu-0": TimeSlice[found.time_slice.upper()]}
            )
            daemons = list(set_up(node).get("daemons", {}).values())
            assert bool(daemons) == (found.mps is not None)
            terms = found.mps.model_dump(by_alias=True, exclude_none=True) if found.mps is not None else {}
            commands = " ".join(line for daemon in daemons for line in daemon["commands"])
            assert ("active_thread_percentage" in commands) == ("defaultActiveThreadPercentage" in terms)
            limits = terms.get("defaultPinnedDeviceMemoryLimit") or terms.get(
                "defaultPerDevicePinnedMemoryLimit"
            )
            assert ("pinned_mem_limit" in commands) == bool(limits)
            await node.unprepare(claim)
            assert set_up(node) == {}
