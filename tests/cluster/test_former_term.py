"""What was begun in a former term of the lease writes nothing in the next one, which may begin before it has ended."""

import asyncio

import pytest

from apportion.cluster.client import Client
from apportion.cluster.lease import Lease
from apportion.errors import NotLeading
from apportion.leading import lead
from testbed.beside import beside
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.emptyserver import client, server
from tests.cluster.leases import lease
from tests.cluster.replica import NAMESPACE

__all__ = ["client", "server"]


class Acting:
    """Begins a task in each term, which goes on after the term."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.begun: list[asyncio.Task[None]] = []
        """Each waits for `answer`, and checks then whether it may write."""
        self.answer = asyncio.Event()

    async def act(self) -> None:
        self.begun.append(asyncio.create_task(self._write()))
        await asyncio.Event().wait()

    async def terms(self) -> int:
        return len(self.begun)

    async def _write(self) -> None:
        await self.answer.wait()
        self._lease.fence()


async def test_a_write_of_a_former_term_is_not_begun_in_the_next_one(client: Client) -> None:
    """Another replica may have led in between, and what was decided before may be wrong by now."""
    clock = Clock()
    only = lease(NAMESPACE, "a", clock)
    acting = Acting(only)

    async def caught_up() -> None:
        """There is nothing to be observed."""

    async with beside(lead(only, catch_up=caught_up, warm_up=lambda: None, act=acting.act)):
        for term in (1, 2):
            await only._attempt(client)
            await eventually(acting.terms, lambda found, term=term: found == term)
            clock.now += 20
        clock.now -= 20
        acting.answer.set()
        former, current = await asyncio.gather(*acting.begun, return_exceptions=True)
    assert isinstance(former, NotLeading)
    assert current is None


@pytest.mark.parametrize("lost", [True, False])
async def test_who_sleeps_until_it_can_write_wakes_when_the_term_ends(client: Client, *, lost: bool) -> None:
    """Nothing waits for what would be refused; a task of a former term does not even begin to sleep."""
    clock = Clock()
    only = lease(NAMESPACE, "a", clock)
    await only._attempt(client)
    only.work_for(1)
    if lost:
        sleeping = asyncio.create_task(only.sleep(3600))
        await asyncio.sleep(0)
        assert not sleeping.done()
    clock.now += 20
    await only._attempt(client)
    assert only.terms == 2
    async with asyncio.timeout(60):
        await (sleeping if lost else only.sleep(3600))
