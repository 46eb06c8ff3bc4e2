"""Whether a group may be decided is asked about its members in steps."""

from apportion.cluster.client import Client
from apportion.scheduling.candidates.preparing import Preparing
from tests.scheduling.longeststep import longest_step
from tests.scheduling.podgroups import gang


async def test_members_of_a_group_are_asked_about_in_steps(unanswered: Client) -> None:
    """A group of 2,000 pods whose claims have a selector of their own each held up everybody for six seconds: all of these were compiled in one step."""
    world = gang(20, 2)
    world.policy(queue={"mostReserved": 0})
    assert longest_step(world.cycle(unanswered), only=Preparing.waits) == 1
