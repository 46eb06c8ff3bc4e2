"""When a burst of changes begins."""

import asyncio
import time

import pytest

from apportion.cluster.debouncer import LATER, Debouncer

LONG = 30.0


def debouncer() -> Debouncer:
    return Debouncer(quiet=0, longest=0, clock=time.monotonic)


async def test_what_does_not_press_begins_a_burst_by_itself_after_a_moment() -> None:
    """Nothing is left undone because nothing else happens."""
    made = debouncer()
    made.wake_later()
    assert not made.awake
    began = time.monotonic()
    await made.burst(within=LONG)
    assert LATER / 2 < time.monotonic() - began < LONG / 2


@pytest.mark.slow
async def test_what_presses_takes_along_what_does_not() -> None:
    """One burst for both, and no second one when the moment is over."""
    made = debouncer()
    made.wake_later()
    made.wake()
    await made.burst(within=LONG)
    await asyncio.sleep(LATER * 1.5)
    assert not made.awake


@pytest.mark.slow
async def test_what_comes_during_a_pass_begins_another_burst() -> None:
    """The burst that is over has not seen it."""
    made = debouncer()
    made.wake()
    await made.burst(within=LONG)
    made.wake_later()
    made.wake_later()
    await asyncio.sleep(LATER * 1.5)
    assert made.awake
