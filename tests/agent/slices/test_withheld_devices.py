"""What is published while kubelet cannot call the agent yet: nothing that claims would be given anew."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import Health
from apportion.agent.slices.changes import Owner, slice_changes
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import DriverPool, SliceContent, pools
from apportion.agent.slices.withheld import withhold
from testbed.eventually import eventually
from testbed.ports import free_ports
from tests.agent.places import DRIVERS, GPU, H100, MakeBackend
from tests.agent.simulatednode import MakeNode, SimulatedNode

BLOCKS = {"key": "apportion.dev/unhealthy", "effect": "NoSchedule", "value": "sick"}
TAINTS = [BLOCKS, BLOCKS | {"value": "other"}, BLOCKS | {"key": "apportion.dev/held"}]
_SETTLED = 1.0
"""Seconds in which an agent that need not wait has published."""
Taints = frozenset[int]
"""Indices of `TAINTS`."""


def pool(devices: Mapping[str, Taints]) -> DriverPool:
    """Return a pool with these devices, two in a slice, after a slice of counters."""
    rows = [{"name": name, "taints": [TAINTS[n] for n in sorted(has)]} for name, has in devices.items()]
    cut = [tuple(rows[start : start + 2]) for start in range(0, len(rows), 2)]
    counters = SliceContent("counters-00", "sharedCounters", ({"name": "gpu-0-counters", "counters": {}},))
    slices = [SliceContent(f"devices-{n:02d}", "devices", part) for n, part in enumerate(cut)]
    return DriverPool(GPU, (counters, *slices))


def live(of: DriverPool) -> list[dict[str, Any]]:
    """Return a pool as the API server has it."""
    bodies = slice_changes(of, [], Owner("n", "u")).creates
    for body in bodies:
        for device in body["spec"].get("devices", ()):
            device["taints"] = [taint | {"timeAdded": "2026-01-01T00:00:00Z"} for taint in device["taints"]]
    return [{**body, "metadata": body["metadata"] | {"resourceVersion": "1"}} for body in bodies]


def marks(of: DriverPool) -> dict[str, set[int]]:
    """Return which taints each published device has."""
    rows = [row for content in of.contents if content.field == "devices" for row in content.rows]
    return {row["name"]: {TAINTS.index(taint) for taint in row["taints"]} for row in rows}


nodes = st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.integers(0, len(TAINTS) - 1)))


@given(before=nodes, wanted=nodes)
def test_devices_are_taken_away_and_tainted_and_none_is_offered(
    before: dict[str, Taints], wanted: dict[str, Taints]
) -> None:
    """A claim can be given what it could be given before and may be given now."""
    found = withhold(pool(wanted), live(pool(before)) if before else [])
    assert marks(found) == {name: set(has | before[name]) for name, has in wanted.items() if name in before}
    assert all(content.rows for content in found.contents)
    if before == wanted and wanted:
        assert found == pool(wanted), "nothing is written about what is as it was"


@pytest.fixture
def backend(make_backend: MakeBackend) -> SimulatedBackend:
    """Two GPUs."""
    return make_backend(cards=[H100 | {"count": 2}])


def test_a_node_without_slices_gets_none_and_a_new_card_waits(backend: SimulatedBackend) -> None:
    """Counters without devices are no slices to write, those of a card that is to come bring nobody there."""
    cards = backend.devices()
    both = pools(NodeInventory(cards=cards), DRIVERS)[0]
    assert withhold(both, []).contents == ()
    first = pools(NodeInventory(cards=cards[:1]), DRIVERS)[0]
    found = withhold(both, live(first))
    assert {row["name"].split("-mig")[0] for row in _devices(found)} == {"gpu-0"}
    sick = pools(NodeInventory(cards=cards, health={"gpu-0": Health.SICK}), DRIVERS)[0]
    assert all(BLOCKS in row["taints"] for row in _devices(withhold(sick, live(both))))


def _devices(of: DriverPool) -> list[dict[str, Any]]:
    rows = [row for each in of.contents if each.field == "devices" for row in each.rows]
    return [row for row in rows if row["name"].startswith("gpu-0")]


@pytest.fixture
async def node(make_node: MakeNode) -> AsyncIterator[SimulatedNode]:
    """Make a node with a GPU whose agents wait for kubelet longer than any test takes."""
    async with make_node(cards=[H100]) as made:
        (port,) = free_ports(1)
        made.options = replace(made.options, registration_patience=600, health_port=port)
        yield made


async def ready(node: SimulatedNode) -> bool:
    """Say whether the agent says that it is ready; then a rolling update ends the former one."""
    address = f"http://127.0.0.1:{node.options.health_port}/readyz"
    async with aiohttp.ClientSession() as web, web.get(address) as answer:
        return answer.status == 200


async def test_devices_are_offered_once_kubelet_has_registered_the_agent(node: SimulatedNode) -> None:
    """A pod that came before had its prepare refused by kubelet, which tries again 60 to 90 s later."""
    async with node.agent():
        await asyncio.sleep(_SETTLED)
        assert (await node.slices(), await ready(node)) == ([], False)
        await node.register()
        await eventually(node.devices, bool)
        await eventually(lambda: ready(node), bool)
        before = await node.slices()
    with node.switchboard() as state:
        state["faults"]["sick"] = ["gpu-0"]
    async with node.agent():
        # The taint comes at once, and goes when kubelet can call.
        await eventually(node.devices, lambda found: len(found["gpu-0"]["taints"]) == 2)
    with node.switchboard() as state:
        state["faults"]["sick"] = []
    async with node.agent():
        await asyncio.sleep(_SETTLED)
        assert len((await node.devices())["gpu-0"]["taints"]) == 2
        await node.register()
        await eventually(node.devices, lambda found: len(found["gpu-0"]["taints"]) == 1)
    assert {s["metadata"]["uid"] for s in before} == {s["metadata"]["uid"] for s in await node.slices()}


async def test_a_kubelet_that_does_not_answer_delays_the_slices_for_some_seconds_only(
    node: SimulatedNode,
) -> None:
    """It may be away for long; it deletes all slices of its node when it starts."""
    async with node.agent(registration_patience=1):
        await eventually(node.devices, bool)
        assert await eventually(lambda: ready(node), bool)


async def test_the_next_agent_of_a_rolling_update_leaves_the_slices_to_the_one_that_kubelet_knows(
    node: SimulatedNode,
) -> None:
    """Neither writes what the other has written, and a device that gets well is offered by whom kubelet can call."""

    async def become(*, sick: bool, taints: int) -> None:
        with node.switchboard() as state:
            state["faults"]["sick"] = ["gpu-0"] if sick else []
        await eventually(node.devices, lambda found: len(found["gpu-0"]["taints"]) == taints)

    async def versions() -> list[str]:
        return [each["metadata"]["resourceVersion"] for each in await node.slices()]

    async with AsyncExitStack() as former:
        await former.enter_async_context(node.agent())
        await node.register()
        await eventually(node.devices)
        before = await versions()
        async with node.agent(instance="next", health_port=0):
            await asyncio.sleep(_SETTLED)
            assert await versions() == before
            await become(sick=True, taints=2)
            await become(sick=False, taints=1)
            before = await versions()
            await asyncio.sleep(_SETTLED)
            assert await versions() == before
            await former.aclose()
            await become(sick=True, taints=2)
            with node.switchboard() as state:
                state["faults"]["sick"] = []
            await asyncio.sleep(_SETTLED)
            assert len((await node.devices())["gpu-0"]["taints"]) == 2
            await node.register(instance="next")
            await eventually(node.devices, lambda found: len(found["gpu-0"]["taints"]) == 1)
