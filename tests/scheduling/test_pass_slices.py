"""A long pass is done in slices, between which others run; what they changed counts."""

from collections.abc import Callable, Generator, Iterator

import pytest

from apportion.allocator.state import State
from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.device import DeviceId
from apportion.scheduling.cycle import LONGEST
from apportion.scheduling.demands.waitingqueue import WaitingQueue, waiting_demands
from apportion.scheduling.pace import AT_ONCE
from tests.clock import Ticking
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.sliced import between, until

MANY = 150
ROOM = 10
"""Devices of a node, and pods that it could take."""


def crowd(*, count: int = 1, nodes: int = MANY // ROOM) -> ObservedCluster:
    """Return a world with many claims that wait, each for so many devices, by a clock that ticks."""
    world = ObservedCluster(clock=Ticking())
    world.device_class("gpu")
    for number in range(nodes):
        node(world, f"n{number:02}")
    for number in range(MANY):
        world.wait_for(f"c{number:03}", request("gpu", count=count))
    return world


def node(world: ObservedCluster, name: str) -> None:
    world.node(name, cpu="64")
    rows = [{"name": f"gpu-{number}"} for number in range(ROOM)]
    world.slice(name, f"{name}-devices", {"devices": rows}, 1)


@pytest.mark.slow
async def test_others_run_while_a_pass_decides(silent: Client) -> None:
    """The lease, the writes and the watches are not kept waiting by a long queue."""
    world = crowd()
    seen: list[int] = []

    await between(
        world.cycle(silent),
        until(lambda: len(world.places()) == MANY, lambda: seen.append(len(world.places()))),
    )

    assert len(set(seen)) >= 10


def test_the_queue_is_gathered_in_small_steps() -> None:
    """A yield for every few claims, and the same queue as in one go."""
    world = crowd()
    steps, yields, gathered = WaitingQueue(world.snapshot).gather(), 0, None
    while gathered is None:
        try:
            next(steps)
            yields += 1
        except StopIteration as end:
            gathered = end.value
    assert gathered == waiting_demands(world.snapshot)
    assert yields >= MANY // AT_ONCE


@pytest.mark.slow
async def test_a_claim_that_goes_away_between_slices_gets_nothing(silent: Client) -> None:
    """Neither does one whose pod has ended meanwhile."""
    world = crowd()

    def meddle() -> Iterator[None]:
        yield from until(lambda: len(world.places()) > 0)
        world.gone(CLAIMS, world.claim("c140"))
        ends: Json = world.pod("c141", "c141")
        ends["status"] = {"phase": "Failed"}
        world.see(PODS, ends)
        yield from until(lambda: len(world.places()) == MANY - 2)

    await between(world.cycle(silent), meddle())

    assert {"c140", "c141"} & world.places().keys() == set()
    holders = [
        world.snapshot.state.holders(DeviceId(GPU, f"n{node:02}", f"gpu-{device}"))
        for node in range(MANY // ROOM)
        for device in range(ROOM)
    ]
    assert sum(map(len, holders)) == MANY - 2


@pytest.mark.slow
async def test_pods_that_are_bound_between_slices_count(silent: Client) -> None:
    """Somebody else fills the last nodes: no more pods are sent there."""
    world = crowd()

    def fill() -> Iterator[None]:
        yield from until(lambda: len(world.places()) > 0)
        assert len(world.places()) < 30
        for number in range(60):
            world.pod(f"other-{number}", spec={"nodeName": f"n{MANY // ROOM - 1 - number // ROOM:02}"})
        yield from until(lambda: "ClaimsNotAllocated" in {reason for _, reason in world.warned})

    await between(world.cycle(silent), fill())

    assert len(world.places()) == MANY - 60


@pytest.mark.slow
async def test_a_walk_that_ends_early_goes_on_where_it_stopped(silent: Client) -> None:
    """Nobody is asked twice before everybody was asked, although those that were refused might be served now."""
    world = crowd(nodes=1)
    for number in range(MANY):
        # Each asks for something else: no refusal stands for another.
        world.claim(f"c{number:03}", request("gpu", expression=f"{number} == {number}", count=11))

    def refused() -> list[str]:
        return [name for name, reason in world.warned if reason == "NotAllocated"]

    def stir() -> None:
        world.node("elsewhere", cpu=str(world.version))

    await between(world.cycle(silent), until(lambda: len(set(refused())) == MANY, stir))

    assert sorted(refused()[:MANY]) == sorted(set(refused()))
    assert world.wakes > MANY


async def test_what_is_computed_in_advance_takes_no_longer_than_to_decide(
    unanswered: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as nothing happened a pass went on with it; after a minute without a new one a replica gives its lease back."""
    world = ObservedCluster(clock=Ticking())
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    cycle, made = world.cycle(unanswered, debouncer=debouncer), 0

    def computes(_: State, *, stops: Callable[[], bool]) -> Generator[None, None, bool]:
        nonlocal made
        while made < 1000:
            made += 1
            world.clock()
            yield
            if stops():
                return True
        return False

    monkeypatch.setattr("apportion.scheduling.cycle.precompute", computes)
    began = world.clock.now
    assert [*cycle._pass(longest=LONGEST, evaluates=False)]
    assert made > 1
    assert world.clock.now - began < 2 * LONGEST
    assert debouncer.awake  # the next pass goes on with it
