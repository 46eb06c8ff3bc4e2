"""Thousands of demands that come at once are noted in steps, and put in order once; a pass that is given up meanwhile loses none of them."""

from collections.abc import Callable

import pytest

from apportion.cluster.client import Client
from apportion.scheduling.deciding import refusals
from apportion.scheduling.deciding.refusals import Refusals
from apportion.scheduling.demands.waiting import WaitingDemand, place_of
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from apportion.scheduling.pace import AT_ONCE
from apportion.scheduling.quota.claimants import Claimants
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet

MANY = 3 * AT_ONCE
ROOM = 8


def come(world: ObservedCluster) -> None:
    """Let claims come that are unlike each other, by the pods that name them."""
    for number in range(MANY):
        resources: Json = {"requests": {"cpu": f"{number + 1}m"}}
        spec = {"containers": [{"name": "main", "resources": resources}]}
        world.wait_for(f"c{number}", request("gpu"), spec=spec)


@pytest.mark.parametrize(
    "work", [WaitingQueue._drop, Refusals._put, Claimants._put], ids=["queue", "refusals", "quotas"]
)
async def test_those_that_come_at_once_are_noted_in_steps(
    unanswered: Client, work: Callable[..., object]
) -> None:
    """20,000 took 0.13 s in one step."""
    world = fleet({"n0": ("h100", 1)})
    cycle = served_before(world, unanswered)
    come(world)
    assert 0 < longest_step(cycle, only=work) <= 2 * AT_ONCE


class Place(tuple[int, str, str]):
    """A place in the queue that counts how often one is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Place.compared += 1
        return super().__eq__(other)

    __hash__ = tuple.__hash__


async def test_those_that_wait_on_are_not_put_in_order_anew(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass sorted all that are like no other one, in one step: 0.07 s for 20,000."""
    monkeypatch.setattr(refusals, "place_of", lambda *of: Place(place_of(*of)))
    world = fleet({"n0": ("h100", 1)})
    world.policy(queue={"mostReserved": 0})
    for number in range(MANY):
        # Pods that share a claim are refused by themselves: a part of them may fit.
        world.claim(f"c{number}", request("gpu", count=2))
        for pod in ("a", "b"):
            world.pod(f"{pod}{number}", f"c{number}")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert Place.compared > 0
    found = cycle.decider.refusals.split()[0]
    assert len(found) == MANY
    assert found == sorted(found, key=lambda demand: place_of(demand, world.snapshot.managed))
    Place.compared = 0
    cycle.decider.refusals.split()
    assert Place.compared == 0


async def test_a_pass_that_is_given_up_loses_none_of_those_that_came(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease was lost when some of them were noted: nobody ever looked at the others, though this replica led once more."""
    world = fleet({f"n{number}": ("h100", ROOM) for number in range(MANY // ROOM)})
    cycle, noted, put = world.cycle(unanswered), list[str](), Refusals._put

    def noting(self: Refusals, row: tuple[tuple[int, str, str], WaitingDemand]) -> None:
        noted.append(row[1].key)
        put(self, row)

    monkeypatch.setattr(Refusals, "_put", noting)
    come(world)
    steps = cycle._pass(longest=1e9, evaluates=False)
    while not noted:
        next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert len(noted) < MANY
    cycle.once()
    assert len(world.places()) == MANY
