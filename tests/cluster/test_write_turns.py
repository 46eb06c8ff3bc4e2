"""Writes of one namespace keep those of others waiting for one turn, not for all of them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster.writeturns import WriteTurns
from tests.clock import Clock


async def order_of(waiting: Sequence[tuple[str, bool]]) -> list[int]:
    """Return in which order writes begin that wait for one slot, each in a namespace; some are cancelled while they wait."""
    turns, began = WriteTurns(1, 1, alone=1), list[int]()

    async def write(number: int, namespace: str) -> None:
        async with turns.of(namespace):
            began.append(number)
            await asyncio.sleep(0)

    async with turns.of("first"):
        tasks = [asyncio.create_task(write(number, each)) for number, (each, _) in enumerate(waiting)]
        await asyncio.sleep(0)
        for task, (_, cancelled) in zip(tasks, waiting, strict=True):
            if cancelled:
                task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return began


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=12))
def test_namespaces_take_turns_each_with_its_oldest_first(waiting: list[tuple[str, bool]]) -> None:
    """By dealing: the next of each namespace in the order in which they came."""
    order = asyncio.run(order_of(waiting))

    assert sorted(order) == [number for number, (_, cancelled) in enumerate(waiting) if not cancelled]
    for number, later in pairwise(order):
        namespace = waiting[number][0]
        left = [each for each in order[order.index(later) :] if waiting[each][0] != namespace]
        assert not left or waiting[later][0] != namespace, "another one waited"
    for each in "abc":
        own = [number for number in order if waiting[number][0] == each]
        assert own == sorted(own)


class Writes:
    """Writes that go on until they are let end, and how many there were at most at once, by namespace and of "all"."""

    def __init__(self, turns: WriteTurns) -> None:
        self.running = Counter[str]()
        self.most = Counter[str]()
        self._turns = turns

    async def write(self, namespace: str) -> None:
        """Write once."""
        async with self._turns.of(namespace):
            self.running.update([namespace, "all"])
            self.most |= self.running
            await asyncio.sleep(0)
            self.running.subtract([namespace, "all"])

    async def all(self, namespaces: str) -> None:
        """Write once for each letter, all at once."""
        await asyncio.gather(*(self.write(each) for each in namespaces))


async def test_no_more_are_running_than_there_are_slots_and_of_one_namespace_than_it_may_have() -> None:
    """And all slots are used where enough wait."""
    writes = Writes(WriteTurns(3, 2, alone=2))
    await writes.all("aaabbc" * 3)
    assert (writes.most["a"], writes.most["all"]) == (2, 3)
    assert max(writes.most["b"], writes.most["c"]) <= 2

    writes.most.clear()
    await writes.all("a" * 9)
    assert writes.most == {"a": 2, "all": 2}


async def test_a_namespace_has_more_turns_while_no_other_writes_and_not_all_of_them() -> None:
    """The first write of another one begins at once, and from then on they share, until that one has not written for a while."""
    clock = Clock()
    turns = WriteTurns(8, 2, alone=6, clock=clock)
    writes = Writes(turns)
    await writes.all("a" * 20)
    assert writes.most == {"a": 6, "all": 6}

    writes.most.clear()
    async with AsyncExitStack() as begun, asyncio.timeout(60):
        for _ in range(6):
            await begun.enter_async_context(turns.of("a"))
        waiting = asyncio.create_task(writes.all("a" * 20))
        async with turns.of("b"):
            await asyncio.sleep(0)
    await waiting
    assert writes.most["a"] == 2

    clock.now += 0.9
    writes.most.clear()
    await writes.all("a" * 20)
    assert writes.most["a"] == 2

    clock.now += 0.2
    writes.most.clear()
    await writes.all("a" * 20)
    assert writes.most["a"] == 6


async def test_a_namespace_is_not_alone_beside_a_write_that_takes_long() -> None:
    """However long ago it began."""
    clock = Clock()
    turns = WriteTurns(8, 2, alone=6, clock=clock)
    writes = Writes(turns)
    async with turns.of("b"):
        clock.now += 60
        await writes.all("a" * 20)
    assert writes.most["a"] == 2


async def test_a_turn_that_is_cancelled_as_it_begins_goes_to_the_next() -> None:
    """Nobody would give it back otherwise."""
    turns, done = WriteTurns(1, 1, alone=1), asyncio.Event()

    async def write() -> None:
        async with turns.of("a"):
            done.set()

    async with turns.of("a"):
        first = asyncio.create_task(write())
        await asyncio.sleep(0)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    assert not done.is_set()

    async with asyncio.timeout(60):
        await write()
