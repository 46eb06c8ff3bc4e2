"""The queue is the same, whether followed change by change or put together anew."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster.kinds import CLAIMS
from apportion.scheduling.demands.waiting import is_current
from apportion.scheduling.demands.waitingqueue import WaitingQueue, waiting_demands
from tests.observedcluster import request
from tests.scheduling.clustersteps import STEPS, claim_uids, step
from tests.scheduling.queued import world
from tests.steps import steps as steps_of


@pytest.mark.slow
@given(st.lists(STEPS, max_size=30))
def test_following_changes_leads_where_a_new_look_leads(steps: list[Any]) -> None:
    """Claims, pods, allocations, classes and policies come and go in any order."""
    made = world()
    queue, uids = WaitingQueue(made.snapshot), claim_uids()
    for kind, *what in steps:
        step(made, kind, what, uids)
        demands, unservable = queue.demands()
        fresh, others = waiting_demands(made.snapshot)
        assert demands == fresh
        assert all(is_current(demand, made.snapshot) for demand in demands)
        assert sorted(map(repr, unservable)) == sorted(map(repr, others))


def test_a_demand_goes_when_another_claim_of_its_pod_does() -> None:
    """Also one that is no part of the demand: kube-scheduler would allocate it."""
    made = world()
    made.claim("ours")
    theirs = made.claim("theirs", request("theirs"))
    made.pod("p", "ours", "theirs")
    queue = WaitingQueue(made.snapshot)
    assert len(queue.demands()[0]) == 1
    made.gone(CLAIMS, theirs)
    assert queue.demands()[0] == []
    made.claim("theirs", request("theirs"), uid="another")
    assert len(queue.demands()[0]) == 1


def test_a_pass_costs_the_same_however_many_wait() -> None:
    """Nothing changed of them; a demand that comes is put together, and all are sorted."""
    counts = []
    for waiting in (5, 50):
        made = world()
        for number in range(waiting):
            made.wait_for(f"w{number}", request("gpu"))
        queue = WaitingQueue(made.snapshot)
        assert len(queue.demands()[0]) == waiting
        counts.append(steps_of(queue.demands))
    assert counts[0] == counts[1]
