"""Writes of one namespace keep those of others waiting for one turn, not for all of them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apportion.scheduling.writeturns import WriteTurns


async def order_of(waiting: Sequence[tuple[str, bool]]) -> list[int]:
    """Return in which order writes begin that wait for one slot, each in a namespace; some are cancelled while they wait."""
    turns, began = WriteTurns(1, 1), list[int]()

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


async def test_no_more_are_running_than_there_are_slots_and_of_one_namespace_than_it_may_have() -> None:
    """And all slots are used where enough wait."""
    turns, running, most = WriteTurns(3, 2), Counter[str](), Counter[str]()

    async def write(namespace: str) -> None:
        async with turns.of(namespace):
            running.update([namespace, "all"])
            most.update({each: max(0, running[each] - most[each]) for each in (namespace, "all")})
            await asyncio.sleep(0)
            running.subtract([namespace, "all"])

    await asyncio.gather(*(write(each) for each in "aaabbc" * 3))
    assert (most["a"], most["all"]) == (2, 3)
    assert max(most["b"], most["c"]) <= 2

    most.clear()
    await asyncio.gather(*(write("a") for _ in range(9)))
    assert most == {"a": 2, "all": 2}


async def test_a_turn_that_is_cancelled_as_it_begins_goes_to_the_next() -> None:
    """Nobody would give it back otherwise."""
    turns, done = WriteTurns(1, 1), asyncio.Event()

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

    async with asyncio.timeout(5):
        await write()
