"""The health that kubelet hears: whole lists, at once and at every change, until the agent leaves."""

import asyncio
import time
from types import ModuleType

import pytest

from apportion.agent.devices.values import Health
from apportion.agent.kubelet.health import DeviceHealth, HealthFeed
from apportion.agent.proto import health_v1_pb2, health_v1alpha1_pb2
from apportion.agent.wakeup import Wakeup
from testbed.eventually import eventually
from tests.agent.kubelet.healthlists import MIG, heard
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode


@pytest.mark.parametrize("messages", [health_v1_pb2, health_v1alpha1_pb2], ids=["v1", "v1alpha1"])
async def test_a_sick_card_and_its_partitions_are_unhealthy_until_it_recovers(
    make_node: MakeNode, messages: ModuleType
) -> None:
    """In both versions of the protocol; the other card stays healthy."""
    began = int(time.time())
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent(), node.health(messages) as lists:
        first = await heard(lists, bool)
        await eventually(node.devices, lambda found: set(found) == set(first))
        assert {row.health for row in first.values()} == {messages.HEALTHY}
        assert first["gpu-0"].device.pool_name == node.name
        assert began <= first["gpu-0"].last_updated_time <= time.time() + 1
        for word, said in (("sick", "reports errors"), ("lost", "does not answer")):
            with node.switchboard() as state:
                state["faults"][word] = ["gpu-0"]
            found = await heard(lists, lambda rows: rows["gpu-0"].health == messages.UNHEALTHY)
            assert found[MIG].health == messages.UNHEALTHY
            assert said in found[MIG].message
            assert found["gpu-1"].health == messages.HEALTHY
            with node.switchboard() as state:
                state["faults"][word] = []
            found = await heard(lists, lambda rows: rows["gpu-0"].health == messages.HEALTHY)
            assert (found[MIG].health, found[MIG].message) == (messages.HEALTHY, "")


async def test_an_agent_that_leaves_ends_its_streams_at_once(make_node: MakeNode) -> None:
    """A stream has no end of its own: a server that waits for it would hold up the agent's end."""
    async with make_node(cards=[H100]) as node:
        async with node.agent():
            opened = node.health()
            lists = await opened.__aenter__()
            await heard(lists, bool)
        # A stream that the server has to break off ends with an error.
        assert [row async for row in lists] == []
        await opened.__aexit__(None, None, None)


async def test_lists_are_repeated_before_kubelet_calls_them_old() -> None:
    """With the time of the last look, so that what nobody could see any more becomes unknown."""
    looked = 1000.0
    rows = (DeviceHealth("gpu-0", "gpu-0", Health.HEALTHY),)
    feed = HealthFeed("pool", lambda: rows, last_read=lambda: looked, changed=Wakeup(), period=0.01)
    lists = feed.lists(health_v1_pb2)
    first, second = [await anext(lists) for _ in range(2)]
    assert (first, first.devices[0].last_updated_time) == (second, 1000)
    feed.close()
    assert [row async for row in lists] == []


async def test_what_happens_while_a_list_is_sent_is_not_missed() -> None:
    """Neither a change nor the end: the stream is not waiting at that moment."""
    rows = [DeviceHealth("gpu-0", "gpu-0", Health.HEALTHY)]
    changed = Wakeup()
    feed = HealthFeed("pool", lambda: tuple(rows), last_read=lambda: 0.0, changed=changed, period=60.0)
    lists = feed.lists(health_v1_pb2)
    async with asyncio.timeout(60):
        await anext(lists)
        rows[0] = DeviceHealth("gpu-0", "gpu-0", Health.SICK)
        changed.wake()
        assert (await anext(lists)).devices[0].health == health_v1_pb2.UNHEALTHY
        feed.close()
        assert [row async for row in lists] == []
