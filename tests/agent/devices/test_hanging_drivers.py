"""A driver that hangs when it is asked whether it is there: the cards of other drivers are served, and looked at."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.agent import backends
from apportion.agent.backends import Found, find
from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.discovery import Discovery
from apportion.agent.driverpause import DriverPause
from apportion.agent.nodelabels import NodeLabels
from apportion.agent.settings import AgentOptions
from apportion.errors import NotReady
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import H100, MakeBackend


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have the Ascend driver hang until this event, after which it is there."""
    there = threading.Event()

    def hang(_: object) -> bool:
        there.wait(10)
        return True

    monkeypatch.setattr(AscendBackend, "present", hang)
    yield there
    there.set()


def test_a_driver_that_hangs_when_the_agent_starts_is_awaited(
    tmp_path: Path, answers: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NICs and GPUs beside it have pods, which end only when an agent unprepares their claims."""
    monkeypatch.setattr(backends.pci, "plugged", lambda *_: True)
    options = AgentOptions("n", backend="ascend", host_root=tmp_path)
    found = find(options, patience=0.1)
    assert (found.backends, found.absent) == ((), ("ascend",))
    assert found.awaited == {"npu": "ascend: its driver has not answered in 0.1 s"}


async def test_a_driver_that_hangs_later_is_waited_for_beside_everything_else(
    tmp_path: Path, make_backend: MakeBackend, answers: threading.Event
) -> None:
    """The task that asks looks at the health of all cards, too. When the driver answers, the agent starts anew for it."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        pause = DriverPause(NodeLabels(node.api, "n"), node.context.hardware, why="", interval=1.0)
        options = AgentOptions("n", backend="ascend", host_root=tmp_path)
        discovery = Discovery(options, node.context, Found((), ("ascend",)), pause, patience=0.05)
        for _ in range(2):
            async with asyncio.timeout(5):
                assert await discovery.later() == frozenset()
        answers.set()
        with pytest.raises(NotReady, match="the driver of ascend answers now"):
            for _ in range(100):
                await discovery.later()
