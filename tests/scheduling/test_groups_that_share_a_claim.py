"""A large group whose pods name one claim: what it cannot have all of is looked at by work that grows with the group, not with its square."""

import pytest

from apportion.cluster.client import Client
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.podgroups import member
from tests.scheduling.queued import fleet


@pytest.mark.parametrize("least", ["9999", "100"], ids=["incomplete", "refused"])
async def test_the_step_that_gives_back_what_a_group_has_grows_with_the_group(
    unanswered: Client, least: str
) -> None:
    """Each of its pods named the claim, and all who name it were looked at for each: 1,500 pods that name it 64 times held up everybody for a minute, in each pass."""
    longest = []
    for count in (100, 400):
        world = fleet({"n1": ("h100", 8)})
        cycle = served_before(world, unanswered)
        world.allocate(world.claim("shared"), "n1", "gpu-1")
        for number in range(count):
            world.claim(f"own-{number}")
            member(world, f"p{number}", "shared", f"own-{number}", least=least)
        longest.append(longest_step(cycle))
    assert longest[1] < 4.5 * longest[0]
