"""On small worlds with every feature, a ladder changes which devices are chosen and nothing else."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.decision import Decision
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from tests.allocator.bruteforce import first_solution, ways_taken
from tests.allocator.randomworlds import DRIVERS, worlds
from tests.allocator.referencenode import DeviceKey, Raw, World
from tests.allocator.validity import Choice, complaints, legal

THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
NUMA = "shared.example.com/numa"
LADDER = Ladder(
    (
        Rung(NUMA),
        Rung(f"{DRIVERS[0]}/kind", per_driver=((DRIVERS[1], f"{DRIVERS[1]}/kind"),)),
    )
)
MOST = 4_000
"""Choices looked at in one world."""


@THOROUGH
@given(raw=worlds(), strategy=st.sampled_from([Strategy.PACK, Strategy.SPREAD]))
def test_the_closest_legal_set_is_chosen_and_the_verdict_stays(raw: Raw, strategy: Strategy) -> None:
    """With counters, shares, taints, constraints, alternatives, mode All and admin access."""
    first = first_solution(raw)
    world = read_world(raw)

    answer = allocate(world.state, world.demand, Terms(strategy, ladder=LADDER))

    assert isinstance(answer, Decision) == (first is not None)
    assert answer == allocate(world.state, world.demand, Terms(strategy, ladder=LADDER))
    if not isinstance(answer, Decision) or first is None:
        return
    results = [one.to_json() for one in answer.allocations]
    assert complaints(raw, results) == []
    plain = World(raw)
    ways = ways_taken(raw, results)
    usual = [way for _, _, way, _ in sorted(first)]
    # What is tried first takes the first devices, which another request's earlier alternative may need.
    assert ways <= usual
    if ways != usual:
        return
    every = list(alike(plain, first))
    event(f"{min(len(every), 10)} or more choices")
    if len(every) < MOST:
        chosen = [
            (row["driver"], row["pool"], row["device"])
            for one in results
            for row in one["devices"]["results"]
            if not row.get("adminAccess")
        ]
        assert close(plain, chosen) == min(
            close(
                plain,
                [
                    device
                    for index, devices in enumerate(choice)
                    if not looks(plain, first[index])
                    for device in devices
                ],
            )
            for choice in every
        )


def alike(world: World, first: Sequence[Choice]) -> Iterator[list[tuple[DeviceKey, ...]]]:
    """Yield the devices of every legal choice by the same alternatives."""
    found = 0

    def go(done: list[Choice]) -> Iterator[list[tuple[DeviceKey, ...]]]:
        nonlocal found
        if len(done) == len(first):
            found += 1
            yield [choice[3] for choice in done]
            return
        claim, request, way, devices = first[len(done)]
        want = world.alternatives(claim, request)[way][1]
        fitting = [device for device in world.devices if world.matches(want, device)]
        ways = [devices] if want.get("allocationMode") == "All" else combinations(fitting, len(devices))
        for chosen in ways:
            if found >= MOST:
                return
            more: list[Choice] = [*done, (claim, request, way, tuple(chosen))]
            if legal(world, more) is None:
                yield from go(more)

    yield from go([])


def looks(world: World, choice: Choice) -> bool:
    """Say whether it is an administrator's look."""
    return bool(world.alternatives(choice[0], choice[1])[choice[2]][1].get("adminAccess"))


def close(world: World, devices: Sequence[DeviceKey]) -> tuple[int, int]:
    """Rate a set: worst level among the pairs, sum of the levels."""
    levels = [level(world, one, other) for one, other in combinations(devices, 2)]
    return max(levels, default=0), sum(levels)


def level(world: World, one: DeviceKey, other: DeviceKey) -> int:
    """Return the level of two devices; two shares of one device are as close as can be."""
    if one == other or (
        own(world, one, NUMA) is not None and own(world, one, NUMA) == own(world, other, NUMA)
    ):
        return 0
    return 1 if own(world, one, "kind") == own(world, other, "kind") else 2


def own(world: World, device: DeviceKey, name: str) -> Any:
    """Return the type and the first value of an attribute."""
    raw = (world.devices[device][0].get("attributes") or {}).get(name)
    if raw is None:
        return None
    [(kind, value)] = raw.items()
    return (kind.removesuffix("s"), value[0]) if isinstance(value, list) else (kind, value)
