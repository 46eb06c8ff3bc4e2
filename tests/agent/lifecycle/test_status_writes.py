"""How often the status of a Partition is written, and that the player of agents (`testbed.partitionresponder`) writes the same."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apportion.agent.lifecycle.begun import BEGUN
from apportion.agent.lifecycle.context import Timeouts
from apportion.cluster.kinds import PARTITIONS
from testbed.api import Json
from testbed.beside import beside
from testbed.eventually import eventually
from testbed.partitionresponder import PartitionResponder
from testbed.reflector import Reflector, Reflectors
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode, SimulatedNode, holder

DEVICE = "gpu-0-mig-1g10gb-19-0"
QUICK = Timeouts(shown=60)
"""Every cut is quick to an agent that has these, however slow the machine is."""


@asynccontextmanager
async def statuses(node: SimulatedNode) -> AsyncIterator[list[Json]]:
    """Follow the Partitions of a node, and note each status that is not the one before."""
    found: list[Json] = []

    def observe(_uid: str, item: Json | None) -> None:
        if item is not None and item["spec"]["nodeName"] == node.name:
            status = item.get("status", {})
            if not found or found[-1] != status:
                found.append(status)

    lists = Reflectors(Reflector(node.api, PARTITIONS.path(), observe))
    async with beside(lists.run()):
        await lists.listening()
        yield found


def phases(seen: list[Json]) -> list[str]:
    """Name the phases."""
    return [status.get("phase", "") for status in seen]


async def shown(seen: list[Json], phase: str) -> None:
    """Wait until the Partition is in a phase for those who follow it: a watch tells of it later than a GET."""

    async def last() -> str:
        return phases(seen)[-1] if seen else ""

    await eventually(last, lambda found: found == phase)


async def noted(node: SimulatedNode) -> list[str]:
    """Return which Partitions (UIDs) are written down as being cut."""
    folder = node.folder / "run" / BEGUN
    # An unfinished file has another ending.
    return [each.name for each in folder.iterdir() if not each.suffix] if folder.is_dir() else []


async def test_a_quick_cut_is_one_status(make_node: MakeNode) -> None:
    """Nobody can do anything with Creating for a moment; what is written down for a lost journal is gone afterwards."""
    async with make_node(cards=[H100]) as node, statuses(node) as seen, node.agent(timeouts=QUICK):
        await node.partition(DEVICE, "1g.10gb", origin="Warm")
        await shown(seen, "Idle")
        assert await eventually(lambda: noted(node), lambda names: names == []) == []
    assert phases(seen) == ["", "Idle"]


async def test_a_slow_cut_is_shown(make_node: MakeNode) -> None:
    """And those who wait see what for, while the file says what is being made."""
    go_on = threading.Event()

    def at(step: str) -> None:
        if step == "hardware.half_made":
            go_on.wait()

    async with (
        make_node(cards=[H100]) as node,
        statuses(node) as seen,
        node.agent(timeouts=Timeouts(shown=0.1), at=at),
    ):
        try:
            made = await node.partition(DEVICE, "1g.10gb", origin="Warm")
            await shown(seen, "Creating")
            # On a busy machine the status is written before the cut has come so far.
            assert await eventually(lambda: noted(node), bool) == [made["metadata"]["uid"]]
        finally:
            go_on.set()
        await shown(seen, "Idle")
    assert phases(seen) == ["", "Creating", "Idle"]


async def test_the_player_of_agents_writes_what_an_agent_writes(make_node: MakeNode, namespace: str) -> None:
    """A new Partition, one that gets a holder, and one that loses it: status by status, but for what a driver names."""
    written: list[list[Json]] = []
    for played in (True, False):
        async with make_node(cards=[H100]) as node, statuses(node) as seen:
            answering = beside(PartitionResponder(node.api).run()) if played else node.agent(timeouts=QUICK)
            async with answering:
                claim = await node.claim(namespace, f"c{len(written)}", DEVICE)
                await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
                await shown(seen, "Ready")
                path = PARTITIONS.path(f"{node.name}-{DEVICE}")
                await node.api.patch(path, {"spec": {"holder": None}})
                await shown(seen, "Idle")
                await node.api.patch(path, {"spec": {"holder": holder(claim)}})
                await shown(seen, "Ready")
        written.append([_comparable(status) for status in seen])
    assert written[0] == written[1]
    assert [status.get("phase") for status in written[0]] == [None, "Ready", "Idle", "Ready"]


def _comparable(status: Json) -> Json:
    """Return a status without what differs from driver to driver and from moment to moment."""
    rows = [{**row, "lastTransitionTime": ""} for row in status.get("conditions", ())]
    named = {key: bool(status[key]) for key in ("uuid", "instance") if key in status}
    return {**status, **named, "conditions": rows}
