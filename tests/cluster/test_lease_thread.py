"""A replica whose event loop is busy goes on leading; one that is unfit does not."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime

import pytest

from apportion.cluster.client import connect
from apportion.cluster.kinds import LEASES
from apportion.cluster.lease import Lease
from apportion.cluster.ownthread import run_in_own_thread
from testbed.beside import beside
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer
from tests.cluster.leases import leads
from tests.cluster.replica import elsewhere

TERM, RESERVE = 15.0, 1.0


def lease(
    identity: str,
    unfit: Callable[[], str | None] = lambda: None,
    *,
    unknown: Callable[[], bool] = lambda: False,
    namespace: str = "apportion-system",
    term: float = TERM,
    clock: Callable[[], float] = time.monotonic,
    slept: list[float] | None = None,
) -> Lease:
    """Return a replica; `unfit` is asked before each look at the Lease, `slept` gets the seconds of each pause that is over."""

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        if slept is not None:
            slept.append(seconds)

    return Lease(
        namespace=namespace,
        name="apportion-operator",
        identity=identity,
        clock=clock,
        now=lambda: datetime.now(UTC),
        duration=term,
        renew=0.3,
        reserve=RESERVE,
        sleep=sleep,
        unfit=unfit,
        unknown=unknown,
        tell=asyncio.get_running_loop().call_soon_threadsafe,
    )


def threaded(one: Lease, server: ApiServer | ControlPlane) -> AbstractAsyncContextManager[None]:
    async def hold() -> None:
        made = server.client() if isinstance(server, ApiServer) else await connect(server.kubeconfig)
        try:
            async with made as client:
                await one.run(client)
        finally:
            # Of a request that is broken off a TLS connection is left, which the server has yet to close.
            await eventually(connections, lambda found: not found)

    return beside(run_in_own_thread("lease", hold))


async def connections() -> int:
    """Return how many this loop has open; the loop's own way to be woken is none."""
    watched = asyncio.get_running_loop()._selector.get_map()  # type: ignore[attr-defined] # asyncio tells them nowhere else
    return len(watched) - 1


@pytest.mark.slow
async def test_a_long_pass_does_not_lose_the_lease() -> None:
    """The loop computes for longer than the lease lasts, and another replica tries all the time."""
    async with elsewhere(ApiServer()) as server:
        await compute_while_two_try(server, "apportion-system")


async def test_a_long_pass_does_not_lose_a_real_lease(control_plane: ControlPlane, namespace: str) -> None:
    """The same on a real API server."""
    await compute_while_two_try(control_plane, namespace)


async def compute_while_two_try(server: ApiServer | ControlPlane, namespace: str) -> None:
    clock, tries = Clock(), list[None]()
    first = lease("first", namespace=namespace, clock=clock)
    second = lease("second", lambda: tries.append(None), namespace=namespace, clock=clock)
    async with threaded(first, server):
        async with asyncio.timeout(60):
            await first.gained.wait()
        async with threaded(second, server):
            # Its thread begins when the loop has a turn.
            await eventually(lambda: made(tries))
            for _ in range(4):
                clock.now += TERM - 2 * RESERVE
                compute_until(lambda: first.remaining() == TERM)
                before = len(tries)
                compute_until(lambda before=before: len(tries) > before + 1)  # type: ignore[misc]
                assert second.remaining() == 0
            first.fence()
            assert first.held() > 3 * TERM


async def made(tries: list[None]) -> int:
    return len(tries)


def compute_until(done: Callable[[], bool]) -> None:
    """Keep the event loop busy until another thread has done something."""
    end = time.monotonic() + 60
    while not done():
        sum(range(1000))
        assert time.monotonic() < end, "nothing happens while the loop is busy"


@pytest.mark.slow
async def test_the_loss_ends_what_waits_for_it_in_the_other_loop() -> None:
    """Acting ends at once when another replica took the lease."""
    async with ApiServer().serving() as server:
        one = lease("one")
        async with threaded(one, server):
            async with asyncio.timeout(60):
                await one.gained.wait()
            taken = server.get(LEASES, "apportion-operator", "apportion-system")
            server.put(LEASES, {**taken, "spec": {**taken["spec"], "holderIdentity": "other"}})
            async with asyncio.timeout(60):
                await one.lost.wait()
            assert one.remaining() == 0


async def test_a_failure_in_the_thread_is_raised_in_the_callers_loop() -> None:
    """A part that ends must end the process."""

    async def breaks() -> None:
        raise ValueError("broken")

    with suppress(ValueError):
        async with asyncio.timeout(60):
            await run_in_own_thread("broken", breaks)
        raise AssertionError("it was not raised")


@pytest.mark.slow
async def test_an_unfit_leader_makes_room_for_a_healthy_one() -> None:
    """It gives the lease back only after its last write has ended, and does not take it again at once."""
    unfit: list[str] = []
    async with ApiServer().serving() as server:
        sick = lease("sick", lambda: unfit[0] if unfit else None, slept=(slept := list[float]()))
        healthy = lease("healthy")
        async with threaded(sick, server):
            async with asyncio.timeout(60):
                await sick.gained.wait()
            async with threaded(healthy, server):
                unfit.append("it does not act")
                async with asyncio.timeout(60):
                    await sick.lost.wait()
                assert sick.remaining() == 0
                await eventually(lambda: leads(healthy))
                assert RESERVE in slept
                unfit.clear()
                await asyncio.sleep(1.0)
                assert sick.remaining() == 0


@pytest.mark.slow
async def test_an_unfit_leader_lets_the_lease_run_out_while_a_write_may_be_carried_out() -> None:
    """A healthy one that led before would not see the write, and give its devices to another claim."""
    unfit, slept, tries, clock = list[str](), list[float](), list[None](), Clock()

    async def gave_up() -> bool:
        return RESERVE in slept

    async with ApiServer().serving() as server:
        sick = lease(
            "sick", lambda: unfit[0] if unfit else None, unknown=lambda: True, clock=clock, slept=slept
        )
        healthy = lease("healthy", lambda: tries.append(None), clock=clock)
        async with threaded(sick, server):
            async with asyncio.timeout(60):
                await sick.gained.wait()
            async with threaded(healthy, server):
                unfit.append("it does not act")
                async with asyncio.timeout(60):
                    await sick.lost.wait()
                await eventually(gave_up)
                before = len(tries)
                await eventually(lambda: made(tries), lambda found: found > before + 1)
                assert healthy.remaining() == 0
                clock.now += TERM + 0.1
                await eventually(lambda: leads(healthy))
                written = server.get(LEASES, "apportion-operator", "apportion-system")
                assert written["spec"]["leaseTransitions"] == 2


async def test_others_wait_for_all_of_a_term_of_half_seconds() -> None:
    """The Lease counts whole seconds; a term that ended sooner for others than for its holder would be led by two."""
    async with ApiServer().serving() as server:
        one = lease("one", term=2.5)
        async with threaded(one, server):
            async with asyncio.timeout(60):
                await one.gained.wait()
            written = server.get(LEASES, "apportion-operator", "apportion-system")
            assert one.remaining() <= 2.5 <= written["spec"]["leaseDurationSeconds"]
