"""Many Events at once: fair, bounded, the newest text, and no flood of log lines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import structlog
from aiohttp import web

from apportion.cluster.eventbudget import BURST, NAMESPACE_BURST, NAMESPACE_RATE, RATE
from apportion.cluster.eventqueue import MOST_WAITING
from apportion.cluster.kinds import CLAIMS, EVENTS
from apportion.cluster.recorder import About, Recorder
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.emptyserver import server
from tests.cluster.recorded import recorder

__all__ = ["server"]


@asynccontextmanager
async def recording(
    server: ApiServer, clock: Clock, *, most_waiting: int = MOST_WAITING
) -> AsyncIterator[Recorder]:
    async with server.client() as client, recorder(client, clock, most_waiting=most_waiting) as made:
        yield made


def claim(number: int, namespace: str = "flood") -> About:
    return About(CLAIMS, f"c{number}", f"uid-{namespace}-{number}", namespace)


async def written(server: ApiServer, namespace: str = "") -> list[str]:
    """Return the texts of a namespace's Events, or of all."""
    return [
        raw["message"]
        for raw in server.all(EVENTS)
        if not namespace or raw["metadata"]["namespace"] == namespace
    ]


@pytest.mark.slow
async def test_a_flood_does_not_delay_anothers_event(server: ApiServer) -> None:
    """Namespaces take turns."""
    server.slow = 0.01
    async with recording(server, Clock()) as noting:
        for number in range(2_000):
            noting.warning(claim(number), "NotAllocated", "no room")
        await asyncio.sleep(0.1)
        noting.warning(claim(0, "calm"), "NotAllocated", "no room")
        await eventually(lambda: written(server, "calm"))
        assert len(await written(server)) < 200


@pytest.mark.slow
async def test_a_flood_is_written_slowly(server: ApiServer) -> None:
    """Each Event costs the API server as much as other writes, which it should have time for."""
    clock, burst = Clock(), int(BURST)
    async with recording(server, clock) as noting:
        for number in range(2 * burst):
            noting.warning(claim(number, f"flood-{number % 8}"), "NotAllocated", "no room")
        await eventually(lambda: written(server), lambda found: len(found) == burst)
        await asyncio.sleep(0.2)
        assert len(await written(server)) == burst
        clock.now += 2
        await eventually(lambda: written(server), lambda found: len(found) == burst + 2 * RATE)


@pytest.mark.slow
async def test_a_flood_of_one_namespace_is_written_more_slowly(server: ApiServer) -> None:
    """The others keep what it may not use."""
    clock, burst = Clock(), int(NAMESPACE_BURST)
    async with recording(server, clock) as noting:
        for number in range(2 * burst):
            noting.warning(claim(number), "NotAllocated", "no room")
        await eventually(lambda: written(server), lambda found: len(found) == burst)
        clock.now += 2
        await eventually(lambda: written(server), lambda found: len(found) == burst + 2 * NAMESPACE_RATE)
        for number in range(100):
            noting.warning(claim(number, "calm"), "NotAllocated", "no room")
        await eventually(lambda: written(server, "calm"), lambda found: len(found) == 100)


async def test_what_had_no_room_does_not_count_as_said(server: ApiServer) -> None:
    """A dropped Event does not count as said; drops are one line of the log with their number."""
    with structlog.testing.capture_logs() as logs:
        async with recording(server, Clock(), most_waiting=100) as noting:
            for number in range(150):
                noting.warning(claim(number), "NotAllocated", f"no room for {number}")
            noting.warning(claim(0, "calm"), "NotAllocated", "no room")
            await eventually(lambda: written(server), lambda found: len(found) == 100)
            assert await written(server, "calm") == ["no room"]
            noting.warning(claim(149), "NotAllocated", "no room for 149")
            await eventually(lambda: written(server), lambda found: "no room for 149" in found)
    [line] = [line for line in logs if line["event"] == "recorder.dropped"]
    assert line["count"] == 51
    assert line["namespaces"] == {"flood": 51}


async def test_what_could_not_be_written_does_not_count_as_said(server: ApiServer) -> None:
    """A server that says 503 once must not silence a topic for five minutes."""
    clock = Clock()
    refusals = [failed(503, "later")]
    asked: list[str] = []

    def fault(request: web.Request) -> web.Response | None:
        asked.append(request.method)
        return refusals.pop() if refusals else None

    server.fault = fault
    async with recording(server, clock) as noting:
        noting.warning(claim(1), "NotAllocated", "no room")
        await eventually(lambda: is_said(asked))
        clock.now += 11
        noting.warning(claim(1), "NotAllocated", "no room")
        await eventually(lambda: written(server), lambda found: found == ["no room"])


async def is_said(asked: list[str]) -> bool:
    return bool(asked)


@pytest.mark.slow
async def test_several_are_written_at_once(server: ApiServer) -> None:
    """One slow answer does not hold up all."""
    server.slow = 30.0
    async with recording(server, Clock()) as noting:
        for number in range(8):
            noting.warning(claim(number), "NotAllocated", "no room")

        async def asked() -> int:
            return sum(method == "POST" for method, _ in server.requests)

        await eventually(asked, lambda found: found >= 4)
        await asyncio.sleep(0.2)
        assert await asked() == 4


@pytest.mark.slow
async def test_a_delayed_warning_is_not_written_after_success(server: ApiServer) -> None:
    """It came too soon after another text, and is over when the claim is allocated."""
    clock = Clock()
    async with recording(server, clock) as noting:
        noting.warning(claim(1), "NotAllocated", "1 device is free")
        await eventually(lambda: written(server), lambda found: len(found) == 1)
        noting.warning(claim(1), "NotAllocated", "2 devices are free")
        noting.withdraw(claim(1))
        noting.normal(claim(1), "Allocated", "allocated gpu-0")
        clock.now += 11
        noting.warning(claim(2), "NotAllocated", "the last")
        await eventually(lambda: written(server), lambda found: "the last" in found)
        await asyncio.sleep(1.2)
        assert set(await written(server)) == {"1 device is free", "allocated gpu-0", "the last"}


async def test_an_event_is_forgotten_when_the_server_drops_it(server: ApiServer) -> None:
    """An hour later it is no Event any more: tens of thousands of them were remembered for ever."""
    clock = Clock()
    async with recording(server, clock) as noting:
        noting.warning(claim(1), "NotAllocated", "no room")

        async def is_known() -> bool:
            return noting.has_written(claim(1), "NotAllocated")

        # The server has it a moment before its answer is read.
        await eventually(is_known)
        assert await written(server)
        clock.now += 3500
        assert noting.has_written(claim(1), "NotAllocated")
        clock.now += 200
        assert not noting.has_written(claim(1), "NotAllocated")
        assert not noting._topics


async def test_the_reason_of_an_event_is_forgotten_with_it() -> None:
    """One about an object that has gone was remembered until 65,536 others had come."""
    clock = Clock()
    async with ApiServer().client() as client:
        noting = Recorder(client, component="test", clock=clock, now=lambda: datetime.now(UTC))
        noting.warning(claim(1), "NotAllocated", "no room")
        clock.now += 3500
        noting.warning(claim(2), "NotAllocated", "no room")
        assert [noting.reason(claim(each).key) for each in (1, 2)] == ["NotAllocated", "NotAllocated"]
        clock.now += 200
        assert [noting.reason(claim(each).key) for each in (1, 2)] == [None, "NotAllocated"]
