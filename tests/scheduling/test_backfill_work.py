"""How often those that could overtake are asked about devices that are reserved."""

from types import ModuleType
from typing import Any

import pytest

from apportion.allocator import queue, reservation
from apportion.allocator.queue import MOST_TOGETHER
from apportion.cluster.client import Client
from apportion.scheduling.backfill import reserveddevices
from apportion.scheduling.backfill.reserveddevices import ReservedDevices
from apportion.scheduling.deciding import decider
from apportion.scheduling.walk import refusedshapes
from tests.scheduling.reserving import Reserving
from tests.steps import Steps


def _counted(module: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str = "decide") -> list[Any]:
    """Return the demands that a module asks the allocator about by this function, as they come."""
    found: list[Any] = []
    original = getattr(module, name)

    def ask(state: Any, demand: Any, *given: Any, **named: Any) -> Any:
        found.append(demand)
        return original(state, demand, *given, **named)

    monkeypatch.setattr(module, name, ask)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the questions about reserved devices, as they come."""
    return _counted(reserveddevices, monkeypatch)


@pytest.fixture
def asked_beside(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Return the questions about what is not reserved, by who asks them."""
    found: list[list[Any]] = []
    for module, name in (
        (decider, "decide"), (decider, "allocate"), (refusedshapes, "decide"), (refusedshapes, "allocate"), (queue, "allocate")
    ):  # fmt: skip
        found.append(_counted(module, monkeypatch, name))
    return found


def _one_idle(client: Client) -> Reserving:
    """Return a node of four devices that is reserved for one that needs all, of which one is idle until it starts."""
    made = Reserving(client, {"n1": 4})
    made.comes("long", 3, runtime="1h")
    assert made.passes() == ["long"]
    made.comes("head", 4)
    made.passes()
    [reservation] = made.cycle.reserved
    assert reservation.plan.start is not None
    return made


async def test_those_that_need_more_devices_than_are_idle_are_not_asked_about(
    unanswered: Client, asked: list[Any]
) -> None:
    """Counting rules them out: neither is what is reserved released for them, nor the room beside it."""
    made = _one_idle(unanswered)
    asked.clear()
    made.comes("a-silent", 2)
    for minutes in range(5, 11):
        made.comes(f"short-{minutes}", 2, runtime=f"{minutes}m")
    for _ in range(4):  # until each was told why it waits
        made.world.snapshot.retry_epoch += 1
        with Steps(only=ReservedDevices.ask) as asks:
            assert made.passes(20.0) == []
    assert asked == []
    assert asks.count == 2  # for the head, and for the one that declares no runtime

    # What fits is asked about, and is had.
    made.comes("small", 1, runtime="5m")
    assert made.passes() == ["small"]
    assert [each.claims[0].name for each in asked] == ["small"]


async def test_what_some_cannot_have_those_that_ask_for_the_same_are_not_asked_about(
    unanswered: Client, asked: list[Any]
) -> None:
    """They differ in how long they run, so each is a shape of its own; the idle device would be enough, but is excluded."""
    made = _one_idle(unanswered)
    [reservation] = made.reservations()
    [idle] = made.world.snapshot.state.kept(reservation.key, {reservation.key})
    made.cycle._exclusions.refuse_device(idle.device)
    asked.clear()
    for minutes in range(5, 11):
        made.comes(f"short-{minutes}", 1, runtime=f"{minutes}m")
    assert made.passes() == []
    assert len(asked) == 1


async def test_those_that_declare_a_runtime_are_asked_about_nothing_but_reserved_devices_once_others_were_refused(
    unanswered: Client, asked_beside: list[list[Any]]
) -> None:
    """What those that declare none cannot have beside what is reserved they cannot have either; and why nobody asks who was told."""
    made = Reserving(unanswered, {"n1": 4, "n2": 4}, mostReserved=1)
    for name, devices, runtime in (("long", 3, "1h"), ("other", 4, "")):
        made.comes(name, devices, runtime=runtime)
        assert made.passes() == [name]
    made.comes("head", 4)
    made.passes()
    assert made.reserved.keys() == {"head"}
    made.comes("a-silent", 2)
    for number in range(3 * MOST_TOGETHER):
        made.comes(f"short-{number}", 2, runtime=f"{5 + number % 6}m")
    for _ in range(6):  # until each was told by itself
        made.world.snapshot.retry_epoch += 1
        for found in asked_beside:
            found.clear()
        assert made.passes(20.0) == []
    asked = [each.claims[0].name for found in asked_beside for each in found]
    assert asked == ["head", "a-silent"]


async def test_why_the_first_of_the_queue_wait_is_not_asked_once_an_event_said_so(
    unanswered: Client, asked_beside: list[list[Any]]
) -> None:
    """An explanation looks at every device that others hold; their Event is not made anew."""
    made = Reserving(unanswered, {"n1": 4, "n2": 4}, mostReserved=2)
    for name in ("long", "other"):
        made.starts(name, 4)
    for name in ("head", "next"):
        made.comes(name, 4)
    for _ in range(4):
        made.world.snapshot.retry_epoch += 1
        for found in asked_beside:
            found.clear()
        assert made.passes(20.0) == []
    asked, explained, asked_shapes, explained_shapes, planned = asked_beside
    assert made.reserved.keys() == {"head", "next"}
    assert (explained, explained_shapes, planned) == ([], [], [])
    assert len(asked) + len(asked_shapes) == 1


async def test_where_all_devices_of_a_node_are_needed_nobody_asks_for_which_once_more(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends there changes when its pod will start, and for whom it waits; until a device is left out."""
    planned = _counted(reservation, monkeypatch)
    made = Reserving(unanswered, {"n1": 4})
    for name, devices, runtime in (("one", 1, "3h"), ("two", 2, "2h"), ("three", 1, "1h")):
        made.starts(name, devices, runtime=runtime)
    made.comes("head", 4)
    made.passes(0.0)
    [reserved] = made.reservations()
    devices = reserved.plan.results
    made.ends("three")  # what was chosen at first is chosen once more, and then known
    made.passes(0.0)
    planned.clear()
    made.ends("one")
    made.passes(0.0)
    assert planned == []
    assert made.reserved == {"head": (["n1"], 2 * 3600)}
    assert [len(place.awaited) for place in reserved.plan.places] == [1]
    assert reserved.plan.results == devices
    made.cycle._exclusions.refuse_device(devices[0].device)
    made.ends("two")
    made.passes(0.0)
    assert planned
    assert made.reserved == {}


async def test_where_there_is_a_choice_a_plan_asks(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four devices: those that others do not have."""
    planned = _counted(reservation, monkeypatch)
    made = Reserving(unanswered, {"n1": 4})
    for name, devices, runtime in (("one", 2, "1h"), ("two", 2, "3h")):
        made.starts(name, devices, runtime=runtime)
    made.comes("head", 3)
    made.passes(0.0)
    for _ in range(2):
        planned.clear()
        made.world.node("n1", cpu="64", changed=str(made.world.version))
        made.passes(0.0)
        assert len(planned) == 1
