"""Events that wait for their turn: which one has to go where there is no room, and what that costs."""

from collections import Counter
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster.eventqueue import About, Event, EventQueue
from apportion.cluster.kinds import CLAIMS
from tests.steps import steps

MOST = 12


def event(namespace: int, number: int) -> Event:
    name = f"c{number}"
    return Event(About(CLAIMS, name, f"{namespace}/{name}", f"n{namespace}"), "Warning", "Reason", "text")


PUTS = st.tuples(st.just("put"), st.integers(0, 4), st.integers(0, 20))
WITHDRAWALS = st.tuples(st.just("withdraw"), st.integers(0, 4), st.integers(0, 20))
TURNS = st.tuples(st.just("next"), st.just(0), st.just(0))


@pytest.mark.slow
@given(st.lists(st.one_of(PUTS, PUTS, PUTS, WITHDRAWALS, TURNS), max_size=80))
def test_the_namespace_with_the_most_events_makes_room(todo: list[tuple[str, int, int]]) -> None:
    """Compared with counting all of them."""
    queue, waiting = EventQueue(MOST), set[Event]()
    for what, namespace, number in todo:
        one = event(namespace, number)
        if what == "next":
            found = queue.next(0.0)
            assert (found in waiting) if waiting else found is None
            waiting -= {found} if found is not None else set()
        elif what == "withdraw":
            queue.withdraw(one.about)
            waiting.discard(one)
        else:
            counts = Counter(each.about.namespace for each in waiting)
            queue.put(one, due=0.0, now=0.0)
            dropped, full = queue.dropped.copy(), len(waiting) == MOST and one not in waiting
            queue.dropped.clear()
            waiting.add(one)
            assert dropped.total() == full
            for loser in dropped:
                most = max(counts.values())
                own = counts[one.about.namespace]
                assert loser == one.about.namespace if most <= own + 1 else counts[loser] == most
                [gone] = waiting - waits(queue)
                assert gone.about.namespace == loser
                waiting.remove(gone)
        assert waits(queue) == waiting
        assert len(queue) == len(waiting)


def waits(queue: EventQueue) -> set[Event]:
    """Return what waits."""
    other = deepcopy(queue)
    return set(iter(lambda: other.next(0.0), None))


@pytest.mark.parametrize("namespaces", [10, 1000])
def test_an_event_costs_no_more_where_many_namespaces_wait(namespaces: int) -> None:
    """When the queue is full, too."""
    queue = EventQueue(2 * namespaces)
    for number in range(2 * namespaces):
        queue.put(event(number % namespaces, number), due=0.0, now=0.0)
    queue.put(event(namespaces, 0), due=0.0, now=0.0)
    assert steps(lambda: queue.put(event(namespaces + 1, 0), due=0.0, now=0.0)) < 60
