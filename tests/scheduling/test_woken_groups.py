"""A large group that was refused is looked at as soon as what it lacks is there, by counting; and not for each device that comes free."""

from collections.abc import Iterator

import pytest

from apportion.allocator.gang.podbound import PodBound
from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.kinds import PODS
from apportion.scheduling.deciding.awaitedroom import _CHANGED_AT_ONCE
from apportion.scheduling.deciding.grouppauses import LARGE
from apportion.settings import CycleSettings
from tests.clock import Ticking
from tests.scheduling.decisions import decisions
from tests.scheduling.longeststep import longest_step
from tests.scheduling.podgroups import gang
from tests.scheduling.reserving import Reserving
from tests.scheduling.sliced import between, until

MISSING = 16
"""Devices that pods have which end one after the other."""
PASS = 0.05
"""Seconds from one of them to the next."""


def crowded(client: Client, *, each: int = 1, nodes: int = LARGE // 4, **queue: object) -> Reserving:
    """Return nodes of four devices, on which pods have some that a large group needs, each of whose pods wants so many."""
    made = Reserving(client, {f"n{number:02}": 4 for number in range(nodes)}, **queue)
    for number in range(MISSING):
        made.starts(f"old-{number}")
    for number in range(LARGE):
        made.comes(f"g-{number}", each, group=("g", LARGE))
    return made


def served(made: Reserving) -> int:
    """Make a pass; return how many pods of the group have devices then."""
    return sum(name.startswith("g-") for name in made.passes(PASS))


@pytest.mark.slow
async def test_a_large_group_is_served_once_the_last_device_that_it_lacks_is_free(unanswered: Client) -> None:
    """At once, and the devices that came free before led to no search."""
    made = crowded(unanswered, mostReserved=0)
    assert served(made) == 0
    before = decisions("short", "none", "no node")
    for number in range(MISSING - 1):
        made.ends(f"old-{number}")
        assert served(made) == 0
    assert decisions("short", "none", "no node") == before
    made.ends(f"old-{MISSING - 1}")
    assert served(made) == LARGE


@pytest.mark.slow
async def test_devices_are_counted_node_by_node(unanswered: Client) -> None:
    """Each of its pods wants three of four devices: enough are free long before the last node has three."""
    made = crowded(unanswered, each=3, nodes=LARGE, mostReserved=0)
    assert served(made) == 0
    before = decisions("short", "none", "no node")
    for number in range(MISSING):
        made.ends(f"old-{number}")
        if served(made):
            break
    assert made.world.places().keys() >= {f"g-{number}" for number in range(LARGE)}
    assert all(list(made.world.places().values()).count(f"n{number:02}") for number in range(LARGE))
    assert decisions("short", "none", "no node") == before


async def test_a_large_group_is_served_once_the_last_pod_that_takes_its_cpu_is_gone(
    unanswered: Client,
) -> None:
    """Its devices are free all the time."""
    nodes = [f"n{number:02}" for number in range(LARGE // 4)]
    made = Reserving(unanswered, dict.fromkeys(nodes, 4), mostReserved=0)
    containers = [{"name": "main", "resources": {"requests": {"cpu": "63"}}}]
    busy = [made.world.pod(f"on-{node}", spec={"nodeName": node, "containers": containers}) for node in nodes]
    for number in range(LARGE):
        made.comes(f"g-{number}", group=("g", LARGE))
    assert served(made) == 0
    before = decisions("short", "none", "no node")
    for pod in busy:
        assert served(made) == 0
        made.world.gone(PODS, pod)
    assert decisions("short", "none", "no node") == before
    assert served(made) == LARGE


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 6])
async def test_a_large_group_starts_without_a_pause_on_what_is_reserved_for_it(
    unanswered: Client, rounds: int
) -> None:
    """However often it was refused before, and rests for so much longer."""
    made = crowded(unanswered)
    for _ in range(rounds):
        assert served(made) == 0
        made.world.clock.now += 31
    assert made.reserved
    for number in range(MISSING):
        made.comes("other")
        made.ends(f"old-{number}")
        started = made.passes(PASS)
        assert "other" not in started
        made.ends("other")
    assert len([name for name in started if name.startswith("g-")]) == LARGE


@pytest.mark.slow
async def test_a_group_that_was_woken_is_decided_in_turns_like_any_other(silent: Client) -> None:
    """What it holds meanwhile is no shortage: it does not rest again in the middle."""
    world = gang(2 * LARGE, LARGE // 2 - 1, count=1)
    world.clock = Ticking(step=0.001)
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    cycle = world.cycle(silent, CycleSettings(idle=3600), debouncer)
    came: list[float] = []

    def turns() -> Iterator[None]:
        yield from until(lambda: bool(world.warned), debouncer.wake)
        world.node("more", cpu="64")
        world.slice("more", "more", {"devices": [{"name": f"gpu-{number}"} for number in range(4)]}, 1)
        came.append(world.clock.now)
        yield from until(lambda: len(world.places()) == 2 * LARGE, debouncer.wake)

    await between(cycle, turns())

    assert world.clock.now - came[0] < 5.0


@pytest.mark.slow
async def test_nodes_that_change_are_counted_in_steps_and_the_next_pass_goes_on(unanswered: Client) -> None:
    """All of them in one, when thousands changed: 0.15 s for 3,000."""
    made = crowded(unanswered, mostReserved=0)
    others = [f"m{number}" for number in range(3 * _CHANGED_AT_ONCE)]
    for name in others:
        made.world.node(name)
    assert served(made) == 0
    for name in others:
        made.world.node(name, cpu="9")
    made.ends(*(f"old-{number}" for number in range(MISSING)))
    for _ in range(3):
        assert longest_step(made.cycle, PodBound._on) == _CHANGED_AT_ONCE
        assert made.cycle._queue.resumes <= made.world.clock.now
    assert served(made) == LARGE
