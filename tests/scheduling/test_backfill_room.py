"""What the first of the queue needs on its node beside devices is kept for it, too."""

import pytest

from apportion.cluster.client import Client
from tests.scheduling.reserving import DEVICES, Reserving, on

CORES = 64
"""Of a node."""


def _reserved(client: Client, *, old: str = "1", runtime: str = "1h", wanted: str = "40") -> Reserving:
    """Return a node of which half of the devices are in use; six are reserved for a pod, and two are nobody's."""
    made = Reserving(client, {"n1": DEVICES})
    made.world.node("n1", cpu=str(CORES))
    made.starts("old", DEVICES // 2, runtime=runtime, cpu=old)
    made.comes("large", 6, cpu=wanted)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3600 if runtime else None)}
    return made


@pytest.mark.parametrize("runtime", ["1h", ""])
async def test_a_smaller_pod_leaves_the_cpu_that_the_first_of_the_queue_needs(
    unanswered: Client, runtime: str
) -> None:
    """Other devices of the node are free, and it has room now: 63 cores, of which 40 are kept."""
    made = _reserved(unanswered, runtime=runtime)
    made.comes("much", cpu="30")
    made.comes("little", cpu="20")
    made.comes("more", cpu="10")
    assert made.passes(0.0) == ["little"]
    made.ends("old")
    assert "large" in made.passes()


async def test_what_becomes_free_until_it_starts_is_not_kept(unanswered: Client) -> None:
    """The pod that ends frees all that it needs."""
    made = _reserved(unanswered, old="40")
    made.comes("small", cpu="24")
    assert made.passes(0.0) == ["small"]
    made.ends("old")
    assert made.passes() == ["large"]


async def test_once_that_is_free_it_is_kept(unanswered: Client) -> None:
    """One of two pods ended: its cores are for the first of the queue, whatever else is free."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.world.node("n1", cpu=str(CORES))
    for name in ("old-1", "old-2"):
        made.starts(name, 3, cpu="20")
    made.comes("large", 6, cpu="40")
    made.passes(0.0)
    made.ends("old-1")
    made.comes("much", cpu="30")
    assert made.passes(0.0) == []
    made.ends("old-2")
    assert made.passes() == ["large"]


async def test_a_pod_that_ends_before_or_comes_first_uses_it(unanswered: Client) -> None:
    """By its runtime, or by its priority."""
    made = _reserved(unanswered)
    made.comes("long", cpu="30", runtime="2h")
    made.comes("short", cpu="30", runtime="30m")
    made.comes("urgent", cpu="30", priority=1)
    assert made.passes(0.0) == ["short", "urgent"]


async def test_it_is_free_once_the_first_of_the_queue_is_gone(unanswered: Client) -> None:
    made = _reserved(unanswered)
    made.comes("much", cpu="30")
    assert made.passes(0.0) == []
    made.ends("large")
    assert made.passes(0.0) == ["much"]


async def test_a_group_gets_the_room_that_is_kept_for_it(unanswered: Client) -> None:
    """On both nodes, and others do not."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES})
    for node in ("n1", "n2"):
        made.world.node(node, cpu=str(CORES))
        made.starts(f"on-{node}", 4, spec={"affinity": on(node)})
    for number in range(2):
        made.comes(f"worker-{number}", 6, group=("training", 2), cpu="40")
    made.passes(0.0)
    assert made.reserved == {"training": (["n1", "n2"], None)}
    made.comes("much", cpu="30")
    assert made.passes(0.0) == []
    made.ends("on-n1", "on-n2")
    assert made.passes() == ["worker-0", "worker-1"]
