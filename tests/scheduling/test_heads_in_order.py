"""In which order devices are reserved for those that wait, and who is asked about for it."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.api.policy import QueueOrder
from apportion.scheduling.backfill.heads import heads
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.observedcluster import request
from tests.quota.tenants import cluster, wait

NOW = 4e9
ONE = st.tuples(
    st.sampled_from("abc"),
    st.integers(0, 2),
    st.integers(0, 3),
    st.sampled_from(["free", "none", "reserved"]),
)
"""Its namespace and priority, when it came, and whether it may have devices reserved, may not, or has."""


def in_turn(waiting: list[WaitingDemand], order: QueueOrder) -> list[str]:
    """Return the names of those that wait, in their order: of each namespace and priority one after the other."""
    if order == QueueOrder.FIFO:
        return [each.key for each in sorted(waiting, key=lambda each: (each.since, each.key))]
    turns, rows = Counter[tuple[int, str]](), []
    for each in sorted(waiting, key=lambda each: (each.since, each.key)):
        own = -each.priority, each.claims[0].namespace
        rows.append((-each.priority, turns[own], each.since, each.key))
        turns[own] += 1
    return [key for *_, key in sorted(rows)]


@pytest.mark.slow
@given(st.lists(ONE, min_size=1, max_size=12), st.sampled_from(QueueOrder), st.integers(1, 12))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_heads_are_those_of_a_list_of_all_that_may_have_one(
    rows: list[tuple[str, int, int, str]], order: QueueOrder, taken: int
) -> None:
    """Those with a reservation come last, the one that was planned the longest ago first; who comes after the last that is taken is not asked about."""
    world = cluster(1, *"abc")
    world.policy(queue={"reserveAfter": "0s", "order": order.value})
    kinds = dict[str, str]()
    for number, (team, priority, at, kind) in enumerate(rows):
        wait(world, team, f"p{number}", request("gpu"), priority=priority, at=at)
        kinds[f"p{number}"] = kind
    waiting = waiting_demands(world.snapshot)[0]
    kind_of = {each.key: kinds[each.claims[0].name] for each in waiting}
    counted = [each for each in waiting if kind_of[each.key] != "none"]
    first = in_turn(counted, order)
    reserved = {key: float(-number) for number, key in enumerate(first) if kind_of[key] == "reserved"}
    wanted = [key for key in first if key not in reserved] + [*reversed(reserved)]
    asked: list[str] = []

    def may_have(each: object) -> bool:
        assert isinstance(each, WaitingDemand)
        asked.append(each.key)
        return kind_of[each.key] == "free"

    found: list[str] = []
    for head in heads(waiting, world.snapshot.managed, NOW, may_have, reserved):
        if isinstance(head, WaitingDemand):
            found.append(head.key)
            if len(found) == taken:
                break
    assert found == wanted[:taken]
    assert not reserved.keys() & {*asked}
    if taken <= len(first) - len(reserved):
        assert asked[-1] == found[-1]
