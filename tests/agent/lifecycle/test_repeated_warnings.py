"""What happens to a node's devices is reported each time, though the words are the same."""

from datetime import UTC, datetime
from pathlib import Path

from apportion.agent.nodeevents import NodeEvents
from apportion.cluster.kinds import EVENTS, NODES
from apportion.cluster.recorder import Recorder
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import H100, MakeBackend

LOST = "interface eth1 of nic-mlx5-1 does not exist any more"


async def test_an_interface_that_does_not_come_back_a_second_time_is_reported(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The Event of the first time is gone by then, and only the agent's log had the second one."""
    time = [0.0]
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.server.put(NODES, {"metadata": {"name": "n"}})
        recorder = Recorder(
            node.api, component="apportion-agent", clock=lambda: time[0], now=lambda: datetime.now(UTC)
        )
        events = NodeEvents(node.api, recorder, "n")

        async def counts() -> list[int]:
            return [event["count"] for event in node.server.all(EVENTS)]

        async with beside(recorder.run()):
            for count in (1, 2):
                await events.warn_anew("NetworkDeviceNotRestored", [LOST, ""])
                await eventually(counts, [count].__eq__)
                time[0] += 3000.0
