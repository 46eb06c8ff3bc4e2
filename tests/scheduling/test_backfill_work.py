"""How often those that could overtake are asked about devices that are reserved."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.backfill import reserveddevices
from tests.scheduling.reserving import Reserving


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the questions about reserved devices, as they come."""
    found: list[Any] = []
    original = reserveddevices.decide

    def decide(state: Any, demand: Any, *given: Any, **named: Any) -> Any:
        found.append(demand)
        return original(state, demand, *given, **named)

    monkeypatch.setattr(reserveddevices, "decide", decide)
    return found


async def test_what_some_cannot_have_those_that_ask_for_the_same_are_not_asked_about(
    unanswered: Client, asked: list[Any]
) -> None:
    """They differ in how long they run, so each is a shape of its own; all end before the head starts, and one device is free."""
    made = Reserving(unanswered, {"n1": 4})
    made.comes("long", 3, runtime="1h")
    assert made.passes() == ["long"]
    made.comes("head", 4)
    made.passes()
    [reservation] = made.cycle.reserved
    assert reservation.plan.start is not None
    asked.clear()
    for minutes in range(5, 11):
        made.comes(f"short-{minutes}", 2, runtime=f"{minutes}m")
    assert made.passes() == []
    assert len(asked) == 1

    # What fits is asked about, and is had; so are the others then, because something changed.
    made.comes("small", 1, runtime="5m")
    assert made.passes() == ["small"]
