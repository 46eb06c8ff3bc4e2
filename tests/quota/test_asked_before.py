"""Who is asked once more before one that gets something is found out as fast behind thousands as behind a few."""

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.walk.reached import MOST_BY_AGE, Reached
from tests.observedcluster import request
from tests.quota.tenants import cluster, quota, wait
from tests.steps import steps

FEW = MOST_BY_AGE + 4
MANY = 10 * FEW


def asked_before(waiting: int, cohorts: str, client: Client, *, fifo: bool = False) -> tuple[int, int]:
    """Let pods of `b` be refused, each for something else, and something change; return in how many steps it is found who is asked before one of `a`, and how many these are.

    `fifo`: their policy, which is not that of `a`.
    """
    world = cluster(8, *"ab")
    for name, cohort in zip("ab", cohorts, strict=False):
        quota(world, name, cohort=cohort)
    world.device_class("other")
    if fifo:
        world.policy(queue={"order": "FIFO"})
    # The one of `a` borrows, too, and more than the others.
    world.allocate(world.claim("has", request("gpu", count=2), namespace="a"), "n1", "gpu-0", "gpu-1")
    for number in range(waiting):
        wait(world, "b", f"b{number}", request("gpu", name=f"r{number}", count=8), at=number)
    wait(world, "a", "mine", request("other" if fifo else "gpu"), at=waiting)
    decider = world.cycle(client).decider
    demands, _ = waiting_demands(world.snapshot)
    [*decider.quotas.begin((), demands)]
    reached = Reached(world.snapshot, decider.refusals, lambda _: False, decider.quotas.dues.of)
    [*reached.begin(demands)]
    *others, mine = demands
    for each in others:
        reached.note(each, decider.refusals.epoch, granted=False)
    world.snapshot.retry_epoch += 1
    found = list[WaitingDemand]()

    def ask() -> None:
        for _ in range(2):
            for each in reached.before(mine):
                reached.note(each, decider.refusals.epoch, granted=False)
                found.append(each)

    return steps(ask), len(found)


@pytest.mark.parametrize(("cohorts", "asked"), [("", 1), ("xx", MOST_BY_AGE), ("xy", 1)])
async def test_it_takes_as_many_steps_however_many_of_a_namespace_were_refused(
    cohorts: str, asked: int, silent: Client
) -> None:
    """Once a namespace had its turns, all that it waits for was looked at for each one that got something: 0.3 s at once for 10,000 pods."""
    few, many = (asked_before(waiting, cohorts, silent) for waiting in (FEW, MANY))
    assert few[1] == many[1] == asked
    assert many[0] <= few[0] * 1.1


async def test_so_it_does_under_a_policy_that_goes_by_age(silent: Client) -> None:
    """All that waited under it was looked at, of whatever namespace."""
    few, many = (asked_before(waiting, "", silent, fifo=True) for waiting in (FEW, MANY))
    assert few[1] == many[1] == 1
    assert many[0] <= few[0] * 1.1
