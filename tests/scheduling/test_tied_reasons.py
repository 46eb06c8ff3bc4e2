"""A pod with a claim that is allocated has to go to that node: what is said of the others, and of that one."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.queued import fleet

LARGE = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "32"}}}]}


def said(world: ObservedCluster, claim: str) -> str:
    """Return why a claim gets no devices."""
    return next(text for name, reason, text in world.messages if (name, reason) == (claim, "NotAllocated"))


@pytest.mark.parametrize(
    ("full", "reasons"),
    [
        ({"n1", "n2", "n3"}, {"3 too little cpu"}),
        ({"n1"}, {"1 too little cpu", "2 claim team/there is allocated elsewhere"}),
    ],
)
async def test_each_node_is_ruled_out_for_one_reason(
    unanswered: Client, full: set[str], reasons: set[str]
) -> None:
    """The claim is not said to be elsewhere than on the node that lacks something else."""
    world = fleet({f"n{number}": ("h100", 2) for number in (1, 2, 3)})
    world.allocate(world.claim("there"), "n1", "gpu-0")
    for node in full:
        world.pod(f"on-{node}", spec=LARGE | {"nodeName": node})
        world.pod(f"more-on-{node}", spec=LARGE | {"nodeName": node})
    world.claim("waits", request("gpu"))
    world.pod("p", "there", "waits", spec=LARGE)
    world.cycle(unanswered).once()
    text = said(world, "waits")
    assert {each.strip(" .") for each in text.split("pod: ")[1].split(";")} == reasons, text
