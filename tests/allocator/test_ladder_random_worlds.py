"""On random small worlds a ladder changes the chosen devices only, and chooses the closest legal set."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import Ladder, Rung
from apportion.allocator.decision import Decision
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from tests.allocator.bruteforce import alternatives_taken, first_solution
from tests.allocator.randomworlds import DRIVERS, worlds
from tests.allocator.referencenode import DeviceKey, Raw, ReferenceNode
from tests.allocator.validity import Choice, violation, violations

THOROUGH = settings(
    max_examples=150, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
"""A failing example is not shrunk: that takes minutes, and the message suffices."""
NUMA = "shared.example.com/numa"
LADDER = Ladder(
    (
        Rung(NUMA),
        Rung(f"{DRIVERS[0]}/kind", per_driver=((DRIVERS[1], f"{DRIVERS[1]}/kind"),)),
    )
)
MOST_CHOICES = 4_000
"""Choices compared in one world."""


@pytest.mark.slow
@THOROUGH
@given(raw=worlds(), strategy=st.sampled_from([Strategy.PACK, Strategy.SPREAD]))
def test_a_ladder_chooses_the_closest_legal_set_and_keeps_the_verdict(raw: Raw, strategy: Strategy) -> None:
    """The worlds have counters, shares, taints, constraints, alternatives, mode All and admin access."""
    first = first_solution(raw)
    world = read_world(raw)

    answer = allocate(world.state, world.demand, Terms(strategy, ladder=LADDER))

    assert isinstance(answer, Decision) == (first is not None)
    assert answer == allocate(world.state, world.demand, Terms(strategy, ladder=LADDER))
    if not isinstance(answer, Decision) or first is None:
        return
    results = [one.to_json() for one in answer.allocations]
    assert violations(raw, results) == []
    node = ReferenceNode(raw)
    alternatives = alternatives_taken(raw, results)
    usual = [alternative for _, _, alternative, _ in sorted(first)]
    # Brute force gives the first devices to the first request; a later request's earlier alternative may need them.
    assert alternatives <= usual
    if alternatives != usual:
        return
    every = list(choices_with_same_alternatives(node, first))
    event(f"{min(len(every), 10)} or more choices")
    if len(every) < MOST_CHOICES:
        chosen = [
            (row["driver"], row["pool"], row["device"])
            for one in results
            for row in one["devices"]["results"]
            if not row.get("adminAccess")
        ]
        assert close(node, chosen) == min(
            close(
                node,
                [
                    device
                    for index, devices in enumerate(choice)
                    if not is_admin_access(node, first[index])
                    for device in devices
                ],
            )
            for choice in every
        )


def choices_with_same_alternatives(
    node: ReferenceNode, first: Sequence[Choice]
) -> Iterator[list[tuple[DeviceKey, ...]]]:
    """Yield the devices of every legal choice of the same alternatives."""
    found = 0

    def go(done: list[Choice]) -> Iterator[list[tuple[DeviceKey, ...]]]:
        nonlocal found
        if len(done) == len(first):
            found += 1
            yield [choice[3] for choice in done]
            return
        claim, request, alternative, devices = first[len(done)]
        exact = node.alternatives(claim, request)[alternative][1]
        fitting = [device for device in node.devices if node.matches(exact, device)]
        combos = [devices] if exact.get("allocationMode") == "All" else combinations(fitting, len(devices))
        for chosen in combos:
            if found >= MOST_CHOICES:
                return
            more: list[Choice] = [*done, (claim, request, alternative, tuple(chosen))]
            if violation(node, more) is None:
                yield from go(more)

    yield from go([])


def is_admin_access(node: ReferenceNode, choice: Choice) -> bool:
    """Return whether the request has adminAccess."""
    return bool(node.alternatives(choice[0], choice[1])[choice[2]][1].get("adminAccess"))


def close(node: ReferenceNode, devices: Sequence[DeviceKey]) -> tuple[int, int]:
    """Rate a set: worst level among the pairs, sum of the levels."""
    levels = [level(node, one, other) for one, other in combinations(devices, 2)]
    return max(levels, default=0), sum(levels)


def level(node: ReferenceNode, one: DeviceKey, other: DeviceKey) -> int:
    """Return the level of two devices; two shares of one device are on the closest level."""
    if one == other or (own(node, one, NUMA) is not None and own(node, one, NUMA) == own(node, other, NUMA)):
        return 0
    return 1 if own(node, one, "kind") == own(node, other, "kind") else 2


def own(node: ReferenceNode, device: DeviceKey, name: str) -> Any:
    """Return type and first value of an attribute."""
    raw = (node.devices[device][0].get("attributes") or {}).get(name)
    if raw is None:
        return None
    [(kind, value)] = raw.items()
    return (kind.removesuffix("s"), value[0]) if isinstance(value, list) else (kind, value)
