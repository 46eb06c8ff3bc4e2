"""Those who wait for the end of a decision about a group are passed over in steps, and whether they have to is found as fast beside a large one."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.deciding.groupdecision import GroupDecision
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.clock import Ticking
from tests.scheduling.busywalks import waiting
from tests.scheduling.deciding import Deciding
from tests.scheduling.longeststep import longest_step
from tests.scheduling.podgroups import gang
from tests.steps import steps

PODS, WAITING = 16, 50


async def test_they_are_passed_over_one_by_one(unanswered: Client) -> None:
    """All of them in one step: 3,000 pods beside a group of 2,000 held up everybody for three seconds."""
    world = gang(PODS, PODS // 4, count=1)
    world.clock = Ticking(step=0.003)
    for number in range(WAITING):
        waiting(world, f"late-{number}", number, priority=0, second=1)
    assert longest_step(world.cycle(unanswered), GroupDecision.leaves_room) <= 2
    assert len(world.places()) == PODS


async def test_that_they_compete_with_it_is_found_as_fast_beside_a_large_one(unanswered: Client) -> None:
    """For each of them all claims of the group were gone through."""
    costs = []
    for pods in (64, 256):
        world = gang(pods, pods // 4, count=1)
        world.clock = Ticking()
        deciding = Deciding(world, unanswered)
        deciding.begin_groups()
        world.claim("late")
        world.pod("late", "late", gates=(GATE,))
        [late] = [each for each in waiting_demands(world.snapshot)[0] if each.claims[0].name == "late"]
        costs.append(steps(lambda each=late, groups=deciding._group_decider: groups.leaves_room(each)))
        deciding.abandon()
    assert costs[0] == costs[1]
