"""Whether the last of the queue are refused as before is asked in steps: what comes free in between is given by their turns."""

from collections.abc import Generator
from typing import Any

import pytest

from apportion.allocator.allocate import _choice
from apportion.cluster.client import Client
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.walk.refusedshapes import RefusedShapes
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.queued import MODEL, fleet

MANY = 40


def waiting(count: int = 1) -> ObservedCluster:
    """Return a world with a device of the rare model that is held, and so many claims that are unlike each other, which want it."""
    world = fleet({"n0": ("rare", 1)})
    world.allocate(world.claim("held"), "n0", "gpu-0")
    world.policy(queue={"mostReserved": 0})
    for number in range(count):
        wait(world, number)
    return world


def wait(world: ObservedCluster, number: int) -> None:
    rare = request("gpu", expression=f'{MODEL} == "rare"')
    resources: Json = {"requests": {"cpu": f"{number + 1}m"}}
    world.wait_for(f"c{number}", rare, spec={"containers": [{"name": "main", "resources": resources}]})


async def test_whether_shapes_are_refused_as_before_is_asked_in_steps(unanswered: Client) -> None:
    """64 of them took 26 to 77 ms in one step on 5,000 nodes."""
    world = waiting(MANY)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.node("elsewhere", cpu="64")
    assert longest_step(cycle, only=_choice) <= 1


async def test_what_comes_free_meanwhile_is_not_given_past_those_who_were_asked_before(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one was refused once more a moment before a device came that it could have; the others had not been asked."""
    world = waiting(3)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.node("elsewhere", cpu="64")
    asked = list[str]()
    is_refused = RefusedShapes._refusal

    def noting(
        self: RefusedShapes, demand: WaitingDemand, *rest: Any, **how: Any
    ) -> Generator[None, None, Any]:
        refusal = yield from is_refused(self, demand, *rest, **how)
        asked.append(demand.claims[0].name)
        return refusal

    monkeypatch.setattr(RefusedShapes, "_refusal", noting)
    for work in cycle._pass(longest=1e9, evaluates=False):
        assert work is None
        if asked and world.snapshot.claim("team", "held") is not None:
            world.gone_claim("held")
    assert asked[0] == "c0"
    assert world.places() == {"c0": "n0"}
