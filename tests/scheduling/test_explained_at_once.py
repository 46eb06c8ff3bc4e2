"""Who comes is told in the same pass why it waits, and may have devices reserved then, also where others of its shape wait already."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from apportion.scheduling.deciding.refusals import EXPLAINED
from tests.scheduling.reserving import Reserving, full


def waiting(client: Client, most: int) -> Reserving:
    """Return a full node, a pod that was told long ago why it waits, and a group behind it: only who comes after the group is among the last of the queue."""
    made = full(client, mostReserved=most)
    made.comes("first", 8)
    made.comes("older", 4)
    for _ in range(3):
        made.passes(EXPLAINED)
    for member in ("g-0", "g-1"):
        made.comes(member, 8, group=("g", 2))
    made.passes()
    made.world.see(NODES, made.world.node("n9", cpu="64"))
    return made


@pytest.mark.parametrize("most", [0, 1, 2])
async def test_who_comes_behind_others_of_its_shape_has_an_event_at_once(
    most: int, unanswered: Client
) -> None:
    """It was told after five minutes, when the older one was asked about by itself."""
    made = waiting(unanswered, most)
    made.comes("new", 4)
    made.comes("smaller", 2)
    made.passes()
    assert made.texts("new", "NotAllocated")
    assert made.texts("smaller", "NotAllocated")
