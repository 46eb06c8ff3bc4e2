"""Places for claims of several shared devices count only where cpu and memory suffice for their pods."""

import random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.rules.query import Alternative
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.node import resources
from tests.allocator.builders import Raw, amounts, claim, cluster, device, device_request, device_slice

LEAST = Terms(Strategy.LEAST_FRAGMENTATION)
UNITS = 10
NANO = 10**9


def cards(count: int) -> list[Raw]:
    """Return devices that several claims share."""
    return [
        device(f"d{index}", allowMultipleAllocations=True, capacity=amounts(units=UNITS))
        for index in range(count)
    ]


def shares(units: int, count: int) -> Raw:
    """Return a request for so many units of each of `count` devices."""
    return device_request(count=count, capacity={"requests": {"units": str(units)}})


def by_hand(state: State, name: str, alternative: Alternative, asked: HostResources | None) -> int:
    """Count the places of a node from what is in use; None: as far as devices go."""
    view, left = state.view(name), state.hosts.left[name]
    units = int(dict(alternative.capacity)["units"].nano)
    used = [sum(view.used.get(index, {}).values()) for index in range(len(view.devices))]
    most = sum(amount + units <= UNITS * NANO for amount in used) // alternative.count
    return most if asked is None else min(most, left.cpu // asked.cpu, left.memory // asked.memory)


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_places_left_and_taken_are_those_counted_by_hand(seed: int) -> None:
    """Claims come and go on random nodes; what a choice was said to take is what is missing afterwards."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    sizes = {f"n{number}": rng.randint(1, 4) for number in range(rng.randint(1, 5))}
    state = cluster(
        *(device_slice(name, name, cards(size)) for name, size in sizes.items()), nodes=tuple(sizes)
    )
    # Powers of two are the lower ends of their bands.
    shapes = [
        (rng.choice([5, 10]), count, HostResources(rng.choice([1, 2, 4]), rng.choice([1, 2])))
        for count in (1, 2, 2, 3)
    ]
    left = {name: HostResources(rng.randint(0, 12), rng.randint(0, 8)) for name in sizes}
    for name, amount in left.items():
        state.put_host(name, amount)
    held: dict[str, tuple[str, HostResources]] = {}
    for turn in range(40):
        if held and rng.random() < 0.3:
            key = rng.choice(sorted(held))
            state.release(key)
            name, amount = held.pop(key)
            left[name] = left[name].plus(amount)
            state.put_host(name, left[name])
        units, count, asked = rng.choice(shapes)
        scorer = state.scorer()
        places = scorer.scarcity.host_places
        requests = {number: alternative for alternative, number in scorer.prices.several.items()}
        kinds = [(number, requests[number], wanted) for number, wanted in places.kinds]
        for kind, (_, alternative, wanted) in enumerate(kinds):
            assert places.left[kind] == sum(by_hand(state, name, alternative, wanted) for name in sizes)
        by_node = {
            name: [
                (by_hand(state, name, alternative, None), by_hand(state, name, alternative, wanted))
                for _, alternative, wanted in kinds
            ]
            for name in sizes
        }
        # Prices follow no fact before the next demand: hold the devices first, and learn the claim last.
        fitting = frozenset(name for name in sizes if left[name].holds(asked))
        demand = Demand((claim(f"c{turn}", shares(units, count)),), fitting, host=HostDemand(asked))
        found = allocate(state, demand, LEAST)
        if isinstance(found, Decision):
            name, here = found.node, left[found.node]
            state.hold(f"c{turn}", found.allocations[0].results)
            held[f"c{turn}"] = name, asked
            left[name] = here.less(asked)
            state.put_host(name, left[name])
            lost: list[int] = []
            missing: list[int] = []
            for kind, (number, alternative, wanted) in enumerate(kinds):
                devices, both = by_node[name][kind]
                if number not in lost:
                    lost += [number] * (devices - by_hand(state, name, alternative, None))
                missing += [kind] * (both - by_hand(state, name, alternative, wanted))
            assert places.taken(name, here, asked, lost) == missing
            event("taken" if missing else "nothing taken")
        assert found.asked is not None
        state.learn(found.asked, asked)


@pytest.mark.parametrize("nothing", [HostResources(0, 1024), HostResources(1000, 0), HostResources(0, 0)])
def test_pods_that_request_more_than_a_node_has_left_are_rated_beside_places_for_pods_that_request_nothing(
    nothing: HostResources,
) -> None:
    """A pod that others are preempted for is asked about nodes that are full; rating them divided by the cpu that nobody requests."""
    state, asked = cluster(device_slice("n1", "n1", cards(4))), HostResources(1000, 1024)
    state.put_host("n1", HostResources(4000, 4096))
    for requested in (nothing, asked) * 20:
        demand = Demand((claim("c", shares(UNITS, 2)),), host=HostDemand(requested))
        found = allocate(state, demand, LEAST)
        assert found.asked is not None
        state.learn(found.asked, requested)
    state.put_host("n1", HostResources(4000, 100) if nothing.cpu else HostResources(500, 4096))
    demand = Demand((claim("d", shares(UNITS, 1)),), host=HostDemand(asked))
    assert isinstance(allocate(state, demand, LEAST), Decision)


def test_pods_that_request_more_than_floats_hold_are_learnt_like_others() -> None:
    """The API server stores any quantity; what one pod requests must not end the decisions about others."""
    state = cluster(device_slice("s", "n1", [device(f"gpu-{number}") for number in range(4)]))
    state.put_host("n1", HostResources(64_000, 2**38))
    asked = HostResources.of(resources({"cpu": "1e400", "memory": "1e400"}, "requests"))
    large = Demand((claim("c", device_request(count=2)),), host=HostDemand(asked), nodes=frozenset())
    refused = allocate(state, large, LEAST)
    assert refused.asked is not None
    state.learn(refused.asked, asked)
    small = HostDemand(HostResources(1000, 2**30))
    assert isinstance(allocate(state, Demand((claim("d", device_request()),), host=small), LEAST), Decision)


@pytest.mark.parametrize("asked", ["1e400", "1e12"])
def test_a_share_that_no_device_could_hold_is_learnt_like_others(asked: str) -> None:
    """The API server stores any amount; a claim that is refused must not end the decisions about all that come after it."""
    state = cluster(device_slice("s", "n1", cards(2)))
    large = device_request(capacity={"requests": {"units": asked}})
    refused = allocate(state, Demand((claim("c", large),)), LEAST)
    assert refused.asked is not None
    state.learn(refused.asked)
    small = Demand((claim("d", shares(1, 1)),))
    assert isinstance(allocate(state, small, LEAST), Decision)
