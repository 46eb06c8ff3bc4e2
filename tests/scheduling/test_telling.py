"""What is so for many objects is reported once, and again as long as it is so, and only so much of it in one pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.scheduling.reports.telling import AT_ONCE, PAUSE, Telling
from tests.clock import Clock


class Thing:
    """Something that is so."""


def test_each_is_due_once_and_once_more_after_a_while() -> None:
    """What changed is another object, and reported at once."""
    clock, things = Clock(), [Thing(), Thing()]
    telling = Telling[Thing](clock)
    assert {*telling.due(things)} == {*things}
    assert [*telling.due(things)] == []
    clock.now += PAUSE - 1
    things[0] = Thing()
    assert [*telling.due(things)] == [things[0]]
    clock.now += 1
    assert [*telling.due(things)] == [things[1]]


def test_what_came_last_is_due_before_a_flood() -> None:
    """One tenant's thousand mistakes delay nobody else's first."""
    clock, things = Clock(), [Thing() for _ in range(3 * AT_ONCE)]
    telling = Telling[Thing](clock)
    reported = [*telling.due(things)]
    assert len(reported) == AT_ONCE
    late = Thing()
    assert next(telling.due([*things, late])) is late


def test_what_is_made_anew_about_the_same_object_is_due_once() -> None:
    """Its object is what was told of; thousands of them keep nobody else from being told of."""
    clock, things = Clock(), [Thing() for _ in range(3 * AT_ONCE)]
    telling = Telling[tuple[Thing]](clock, about=lambda made: made[0])
    reported: list[Thing] = []
    for _ in range(4):
        reported += [thing for (thing,) in telling.due([(thing,) for thing in things])]
    assert len(reported) == len(things)
    assert {*reported} == {*things}


@pytest.mark.slow
@given(st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=20))
def test_all_that_stays_so_is_due_in_the_end(rounds: list[set[int]]) -> None:
    """Whatever comes and goes between."""
    clock, things = Clock(), [Thing() for _ in range(31)]
    telling = Telling[Thing](clock)
    reported: dict[Thing, bool] = {}
    for now_so in rounds:
        current = [things[number] for number in sorted(now_so)]
        for each in telling.due(current):
            assert each in current
            reported[each] = True
        assert all(each in reported for each in current)
        reported = dict.fromkeys(current, True)
