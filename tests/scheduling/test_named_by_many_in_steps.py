"""Thousands of pods may name the same claims: what follows these claims looks at few of them in a step."""

from collections.abc import Callable, Iterator

import pytest

from apportion.api.contract import GATE, KEEP_FOR
from apportion.cluster.client import Client
from apportion.scheduling.clearing.clearing import keeping
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.demands.guardedclaims import GuardedClaims
from apportion.scheduling.pace import AT_ONCE
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.queued import fleet
from tests.steps import Steps

CLAIMS, PODS = 40, 150
FOLLOWED: dict[str, tuple[dict[str, object], Callable[[ObservedCluster, Cycle], Iterator[None]]]] = {
    "unused": ({"nodeName": "n0"}, lambda _, cycle: cycle._tidying._unused.steps()),
    "stalled": ({}, lambda _, cycle: cycle._tidying._stalled.steps()),
    "guarded": ({"nodeName": "n0"}, lambda world, _: GuardedClaims(world.snapshot, world.clock).steps()),
}


@pytest.mark.parametrize("what", FOLLOWED)
async def test_few_claims_that_many_pods_name_are_looked_at_in_a_step(unanswered: Client, what: str) -> None:
    """Sixty that 3,000 pods name were looked at in one step, of a fifth of a second to several, with each change of one of these pods."""
    spec, followed = FOLLOWED[what]
    world = fleet({"n0": ("h100", CLAIMS)})
    world.device_class("theirs", unmanaged="yes")
    names = [f"c{number}" for number in range(CLAIMS)]
    for number, name in enumerate(names):
        if what == "guarded":
            world.claim(name, request("theirs"))
        else:
            world.allocate(world.claim(name), "n0", f"gpu-{number}")
    for number in range(PODS):
        # One of its claims does not exist, so that it does not start.
        world.pod(f"p{number}", *names, "missing", gates=() if spec else (GATE,), spec=spec)
    steps, longest, more = followed(world, world.cycle(unanswered)), 0, True
    while more:
        with Steps() as counted:
            more = next(steps, steps) is not steps
        longest = max(longest, counted.count)
    assert longest < PODS * (8 if spec else 8 * CLAIMS)


async def test_what_is_kept_for_long_is_looked_at_in_steps(unanswered: Client) -> None:
    """Five thousand claims that keep their devices between pods took 0.05 s of each pass, in one step."""
    world = fleet({"n0": ("h100", 3 * AT_ONCE)})
    for number in range(3 * AT_ONCE):
        claim = world.claim(f"c{number}", annotations={KEEP_FOR: "10h"})
        world.allocate(claim, "n0", f"gpu-{number}")
    cycle = world.cycle(unanswered)
    cycle.once()
    assert 0 < longest_step(cycle, only=keeping) <= AT_ONCE
