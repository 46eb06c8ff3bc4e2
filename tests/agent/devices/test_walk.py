"""Calls about many cards: one thread asks them all, unless a card is slow."""

import asyncio
import threading
from functools import partial

import pytest

from apportion.agent.devices.threads import Threads
from apportion.agent.devices.walk import Walk
from apportion.errors import HardwareError, Lost

CARDS = tuple(f"gpu-{number}" for number in range(8))


def _refuse(card: str) -> str:
    raise Lost(card)


async def test_one_thread_asks_all_cards_that_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they are refused with is told by card."""
    # On a busy machine the thread itself may begin late, which is no card's slowness.
    monkeypatch.setattr("apportion.agent.devices.walk._MOMENT", 60.0)
    walk = Walk(dict.fromkeys(CARDS, threading.get_ident) | {"gpu-3": partial(_refuse, "gpu-3")}, patience=60)
    await walk.run(Threads())
    assert walk.answers.keys() == set(CARDS) - {"gpu-3"}
    assert len(set(walk.answers.values())) == 1
    assert {card: str(error) for card, error in walk.errors.items()} == {"gpu-3": "gpu-3"}
    assert walk.overdue == {}


@pytest.mark.slow
async def test_cards_that_hang_hold_up_nobody_else_and_are_overdue() -> None:
    """Their calls come back later, and what they say then changes nothing."""
    back = threading.Event()

    def hang() -> str:
        back.wait()
        raise HardwareError("too late")

    silent = {"gpu-0", "gpu-1", "gpu-7"}
    walk = Walk({card: hang if card in silent else partial(str, card) for card in CARDS}, patience=1.0)
    await walk.run(Threads())
    assert walk.answers == {card: card for card in CARDS if card not in silent}
    assert walk.overdue.keys() == silent
    assert not any(call.done() for call in walk.overdue.values())
    back.set()
    await asyncio.wait(walk.overdue.values())
    assert walk.answers.keys().isdisjoint(silent)


@pytest.mark.slow
async def test_a_card_that_is_slow_and_within_its_deadline_answers() -> None:
    """Others take the time that they take; a second thread asks them meanwhile."""
    asked = threading.Event()

    def slow() -> int:
        assert asked.wait(60)
        return threading.get_ident()

    def quick() -> int:
        asked.set()
        return threading.get_ident()

    walk = Walk({"gpu-0": slow, "gpu-1": quick}, patience=120)
    await walk.run(Threads())
    assert walk.answers["gpu-0"] != walk.answers["gpu-1"]


async def test_no_cards_are_no_calls() -> None:
    """A node may have none."""
    walk = Walk[int]({}, patience=5)
    await walk.run(Threads())
    assert (walk.answers, walk.errors, walk.overdue) == ({}, {}, {})


async def test_errors_that_are_not_of_the_hardware_are_raised() -> None:
    """They are defects, which nobody is to take for a sick card."""
    walk = Walk({"gpu-0": partial(int, "x")}, patience=5)
    with pytest.raises(ValueError, match="invalid literal"):
        await walk.run(Threads())
