"""A driver that hangs when it is asked whether it is there: the cards of other drivers are served, and looked at."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apportion.agent.backends import Found, find
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.rdma.backend import RdmaBackend
from apportion.agent.discovery import Discovery
from apportion.agent.driverpause import DriverPause
from apportion.agent.ownnode import OwnNode
from apportion.agent.servedrivers import needs_a_start
from apportion.agent.settings import AgentOptions
from apportion.errors import NotReady
from testbed.eventually import eventually
from testbed.fakes.dcmi import host as dcmi_host
from testbed.fakes.dcmi.library import FakeDcmi
from testbed.fakes.rdma import RdmaHost
from tests.agent.lifecycle.onecard import one_card
from tests.agent.nvml.nodes import Nodes
from tests.agent.places import H100, MakeBackend


@pytest.fixture
def chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDcmi]:
    """Give an Ascend driver that hangs when it is opened; its chips are on the bus of the host at `tmp_path`."""
    monkeypatch.setenv(FakeDcmi.variable, "")
    fake = FakeDcmi.create(tmp_path / "dcmi", ["910B4"])
    fake.preload()
    dcmi_host.lay_out(fake, tmp_path)
    fake.hang("dcmi_init")
    yield fake
    fake.drop_rules()


def test_a_driver_that_hangs_when_the_agent_starts_is_awaited(tmp_path: Path, chips: FakeDcmi) -> None:
    """NICs and GPUs beside it have pods, which end only when an agent unprepares their claims."""
    options = AgentOptions("n", backend="ascend", host_root=tmp_path)
    found = find(options, patience=0.1)
    assert (found.backends, found.absent) == ((), ("ascend",))
    assert found.awaited == {"npu": "ascend: its driver has not answered in 0.1 s"}


async def test_several_drivers_that_hang_are_waited_for_together(
    tmp_path: Path, chips: FakeDcmi, make_gpus: Nodes
) -> None:
    """One after the other they take longer than kubelet gives an agent to start, which it would kill for ever."""
    gpus = make_gpus()
    gpus.fake.hang("nvmlInitWithFlags")
    nics = RdmaHost(tmp_path)
    nics.add("mlx5_0", "0000:9d:00.0")
    threads = threading.active_count()
    options = AgentOptions("n", host_root=tmp_path)

    async def asked() -> tuple[int, int]:
        return gpus.fake.calls().get("nvmlInitWithFlags", 0), chips.calls().get("dcmi_init", 0)

    with ThreadPoolExecutor(1) as pool, nics.hanging("mlx5_0"):
        assert find(options, patience=0.3).absent == ("nvml", "ascend", "rdma")
        before = await asked()
        finding = pool.submit(find, options, patience=90)
        # One of them is asked although the other one, which was asked before, has not answered.
        await eventually(asked, lambda now: all(a > b for a, b in zip(now, before, strict=True)))
        assert not finding.done()
        for fake in (chips, gpus.fake):
            fake.drop_rules()
    assert "nvml" not in finding.result().absent
    # A session that is opened after the test would show its fake to the next one.
    await eventually(lambda: asyncio.sleep(0, threading.active_count()), lambda count: count <= threads)


def test_a_driver_that_is_not_to_be_asked_is_not(make_gpus: Nodes) -> None:
    """It is about to be exchanged."""
    gpus = make_gpus()
    found = find(AgentOptions("n", backend="nvml", host_root=gpus.root), paused="it is exchanged")
    assert (found.backends, found.absent) == ((), ("nvml",))
    assert gpus.fake.calls() == {}
    assert find(AgentOptions("n", backend="nvml", host_root=gpus.root)).absent == ()
    assert gpus.fake.calls() == {"nvmlInitWithFlags": 1}


@pytest.mark.parametrize(("incomplete", "kinds"), [(False, {"npu"}), (True, {"npu", "gpu"})])
def test_drivers_whose_cards_do_not_answer_yet_are_served_from_the_start(
    tmp_path: Path, kinds: set[str], *, incomplete: bool
) -> None:
    """A card that is slow at each start would end each agent when it answers, as the first of its kind, and nobody's cards were served for long."""
    there = (NvmlBackend(tmp_path), RdmaBackend(tmp_path))
    found = Found(there, ("ascend",), {"npu": "ascend: its driver does not answer"})
    assert found.kinds(incomplete=incomplete) == kinds
    assert needs_a_start("gpu", found.kinds(incomplete=incomplete), {"npu": "npu.d"}) is not incomplete


@pytest.mark.parametrize(
    ("kind", "known", "served", "anew"),
    [
        ("gpu", (), {}, True),
        ("gpu", ("gpu",), {"gpu": "gpu.d"}, False),
        # Its driver is served because the node had such cards once.
        ("gpu", (), {"gpu": "gpu.d"}, False),
        # Nobody listens to the container runtime for it yet.
        ("nic", (), {"nic": "nic.d"}, True),
        ("nic", ("nic",), {"nic": "nic.d"}, False),
    ],
)
def test_an_agent_starts_anew_only_for_cards_that_it_cannot_serve(
    kind: str, known: tuple[str, ...], served: dict[str, str], *, anew: bool
) -> None:
    """Each start asks all cards once more, and kubelet's calls wait for it."""
    assert needs_a_start(kind, known, served) is anew


@pytest.mark.slow
async def test_a_driver_that_hangs_later_is_waited_for_beside_everything_else(
    tmp_path: Path, make_backend: MakeBackend, chips: FakeDcmi
) -> None:
    """The task that asks looks at the health of all cards, too. When the driver answers, the agent starts anew for it."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        pause = DriverPause(OwnNode(node.api, "n"), node.context.hardware, why="", interval=1.0)
        options = AgentOptions("n", backend="ascend", host_root=tmp_path)
        discovery = Discovery(options, node.context, Found((), ("ascend",)), pause, patience=0.5)
        for _ in range(2):
            async with asyncio.timeout(60):
                assert await discovery.later() == frozenset()
        chips.drop_rules()
        with pytest.raises(NotReady, match="the driver of ascend answers now"):
            await eventually(discovery.later, lambda _: False)


async def test_a_device_whose_files_hang_holds_up_nothing_but_the_search_for_more(tmp_path: Path) -> None:
    """A NIC whose firmware does not answer has files in /sys that do not return for a minute: kubelet's calls would wait as long."""
    host = RdmaHost(tmp_path)
    host.add("mlx5_0", "0000:9d:00.0")
    hardware = Hardware([RdmaBackend(tmp_path)], patience=0.1)
    await eventually(hardware.discover, lambda found: set(found) == {"nic-mlx5-0"})
    with host.hanging("mlx5_0"):
        began = time.monotonic()
        assert [*hardware.unknown] == []
        assert await hardware.look() is False
        assert time.monotonic() - began < 60
        host.add("mlx5_1", "0000:9e:00.0", guid="1:2:3:4")
    assert await eventually(hardware.look, bool)
    assert len([*hardware.unknown]) == 1
    both = {"nic-mlx5-0", "nic-mlx5-1"}
    await eventually(hardware.discover, lambda found: set(found) == both)
    assert [*hardware.unknown] == []
