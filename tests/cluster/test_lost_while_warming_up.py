"""A replica that loses the lease and gains it while its loop is busy sees what others wrote before it acts."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from apportion.cluster.kinds import LEASES
from apportion.cluster.lease import Lease
from apportion.leading import lead
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer


def hold(server: ApiServer, holder: str) -> None:
    """Write the Lease as another replica does that takes it, or (no holder) has released it."""
    metadata = {"name": "l", "namespace": "n"}
    server.put(LEASES, {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1}})


@pytest.mark.parametrize("regained", [True, False])
async def test_what_was_observed_in_an_earlier_term_is_not_enough(*, regained: bool) -> None:
    """The lease's thread says both at once, when the loop has its turn; or the second a moment later."""
    done: list[str] = []
    calls: list[Callable[[], None]] = []
    server = ApiServer()
    loop = asyncio.get_running_loop()
    lease = Lease(
        namespace="n",
        name="l",
        identity="replica",
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        renew=0.01,
        tell=calls.append,
    )

    async def said(count: int) -> None:
        async def heard() -> int:
            return len(calls)

        await eventually(heard, lambda found: found == count)

    async def catch_up() -> None:
        done.append("caught up")
        if len(done) == 1:
            hold(server, "other")
            await said(1)
            hold(server, "")
            await said(2)

    def warm_up() -> None:
        if calls:
            loop.call_soon(calls.pop(0))
            if regained:
                loop.call_soon(calls.pop(0))
            else:
                loop.call_later(0.1, calls.pop(0))

    async def act() -> None:
        done.append("acts")
        await asyncio.Event().wait()

    async def acts() -> bool:
        return "acts" in done

    async with server.serving(), server.client() as client, beside(lease.run(client)):
        await said(1)
        async with beside(lead(lease, catch_up=catch_up, warm_up=warm_up, act=act)):
            calls.pop(0)()
            await eventually(acts)
    assert done == ["caught up", "caught up", "acts"]
