"""The victims of a demand: as few and as cheap as an exact solver finds, by devices instead of age."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from apportion.allocator.allocate import decide
from apportion.allocator.demand import Demand
from apportion.allocator.preemption.findvictims import find_victims
from apportion.allocator.preemption.victims import (
    LEAVING,
    NodeVictims,
    Victim,
    VictimCost,
    VictimGroup,
    VictimSet,
)
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from tests.allocator.builders import (
    GPU,
    SEVEN_ENGINES,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
    partitionable_slices,
)
from tests.allocator.victimoracle import least_cost
from tests.allocator.victimworlds import World, drawn

WORLDS = 300
ENOUGH = 100_000
"""Questions: no search of a small world ends at its budget."""


def found_in(world: World, tries: int = ENOUGH) -> VictimSet | None:
    return find_victims(world.state, world.demand, world.nodes, wanted=world.wanted, tries=tries)


@pytest.mark.slow
def test_no_set_of_victims_is_cheaper_than_the_one_that_is_found() -> None:
    """Three hundred small clusters, judged by CP-SAT: priority, then pods, then lost time, and no more than may go; some are hopeless."""
    needed = 0
    for seed in range(WORLDS):
        world = drawn(seed)
        found = found_in(world)
        assert (found.cost if found is not None else None) == least_cost(world), seed
        assert found is None or found.proven, seed
        needed += found is not None
    assert WORLDS / 3 < needed < WORLDS


@pytest.mark.slow
def test_the_demand_gets_its_devices_once_the_victims_are_gone_and_keeps_them_if_one_stays() -> None:
    """The decision holds without the victims, and no victim is one too many (Kueue 10131)."""
    for seed in range(WORLDS, WORLDS + 80):
        world = drawn(seed)
        before = {node.node: world.state.view(node.node).holdings for node in world.nodes}
        found = found_in(world)
        assert {name: world.state.view(name).holdings for name in before} == before
        if found is None or found.groups:
            continue
        for victim in found.victims:
            for key in victim.holds:
                world.state.release(key)
        here = Demand(world.demand.claims, frozenset({found.node}))
        assert decide(world.state, here) is not None, seed
        held = found.decision.allocations[0].results
        view = world.state.view(found.node)
        for result in held:
            index = view.find(result.device)
            assert index is not None
            assert view.open >> index & 1, seed


@pytest.mark.slow
def test_a_search_that_ends_at_its_budget_says_so_and_its_victims_serve_all_the_same() -> None:
    """With few questions some sets are not proven; none is better than the best."""
    unproven = 0
    for seed in range(100):
        world = drawn(seed)
        found, best = found_in(world, tries=12), found_in(world)
        if found is None:
            continue
        assert best is not None
        assert found.cost >= best.cost
        assert found.cost == best.cost or not found.proven, seed
        unproven += not found.proven
    assert unproven


def two_cards(held: Mapping[str, int]) -> tuple[State, NodeVictims]:
    """Return a node with two cards, and its victims: seconds lost by place (`card-start`) of a small partition."""
    state = cluster(*partitionable_slices("n1", 2, SEVEN_ENGINES))
    victims = []
    for place, lost in held.items():
        card, start = place.split("-")
        results = (DeviceResult("r", DeviceId(GPU, "n1", f"one-{card}-{start}")),)
        state.hold(place, results)
        victims.append(Victim(place, 0, 1, lost, {place: results}))
    return state, NodeVictims("n1", tuple(victims))


def test_the_one_small_partition_that_blocks_a_card_goes_however_old_it_is() -> None:
    """Not the newest pods: those of the other card are three."""
    state, node = two_cards({"0-3": 9000, "1-0": 1, "1-1": 1, "1-2": 1})
    found = find_victims(state, Demand((claim("c", device_request(kind="seven")),)), [node])
    assert found is not None
    assert [each.key for each in found.victims] == ["0-3"]
    assert found.decision.allocations[0].results[0].device.name == "seven-0-0"
    assert found.cost == VictimCost(0, 1, 9000)


def test_a_partition_that_is_in_no_slice_any_more_keeps_its_card_until_its_pod_goes() -> None:
    """A search leaves the state as it was: its counters are not free for others afterwards."""
    state, node = two_cards({"0-0": 20, "1-0": 10})
    _, devices = partitionable_slices("n1", 2, SEVEN_ENGINES)
    left = tuple(each for each in devices.devices if each.name not in {"one-0-0", "one-1-0"})
    state.put_slice(replace(devices, devices=left))
    demand = Demand((claim("c", device_request(kind="seven")),))
    found = find_victims(state, demand, [node])
    assert found is not None
    assert [each.key for each in found.victims] == ["1-0"]
    assert found.decision.allocations[0].results[0].device.name == "seven-1-0"
    assert decide(state, demand) is None


def gpus(*victims: tuple[int, int, Sequence[int]], **more: Mapping[str, int]) -> NodeVictims:
    """Return victims of a node with plain GPUs: (priority, pods, positions of GPUs); `left` and `freed` as theirs."""
    rows = []
    for number, (priority, pods, held) in enumerate(victims):
        holds = {
            f"v{number}-{index}": (DeviceResult("r", DeviceId(GPU, "n1", f"gpu-{index}")),) for index in held
        }
        rows.append(Victim(f"v{number}", priority, pods, 10, holds, {"pods": pods, **more.get("freed", {})}))
    return NodeVictims("n1", tuple(rows), left=more.get("left", {"pods": 9}))


def of_gpus(count: int, node: NodeVictims) -> State:
    state = cluster(device_slice("n1", "n1", [device(f"gpu-{n}") for n in range(count)]))
    for victim in node.victims:
        for key, results in victim.holds.items():
            state.hold(key, results)
    return state


def asked(count: int) -> Demand:
    return Demand((claim("c", device_request(count=count)),))


def test_two_pods_of_low_priority_go_before_one_of_higher_priority() -> None:
    """Priority counts first."""
    node = gpus((5, 1, [0, 1]), (0, 1, [2]), (0, 1, [3]))
    found = find_victims(of_gpus(4, node), asked(2), [node])
    assert found is not None
    assert [each.key for each in found.victims] == ["v1", "v2"]


def test_pods_that_share_a_claim_count_each() -> None:
    """Evicting one of three would free nothing."""
    node = gpus((0, 3, [0, 1]), (0, 1, [2]), (0, 1, [3]))
    found = find_victims(of_gpus(4, node), asked(2), [node])
    assert found is not None
    assert found.cost == VictimCost(0, 2, 20)


def test_a_group_that_would_be_too_small_goes_as_a_whole_and_costs_as_much() -> None:
    """Its pods elsewhere count, so two single pods are cheaper; without them the whole group goes."""
    single = gpus((0, 1, [0, 1]), (0, 1, [2]), (0, 1, [3]))
    group = Victim("v0", 0, 1, 10, single.victims[0].holds, group="g")
    node = NodeVictims("n1", (group, *single.victims[1:]), {"g": VictimGroup(spare=0, pods=3, lost=30)})
    found = find_victims(of_gpus(4, node), asked(2), [node])
    assert found is not None
    assert (found.groups, found.cost) == (frozenset(), VictimCost(0, 2, 20))
    found = find_victims(of_gpus(4, node), asked(4), [node])
    assert found is not None
    assert (found.groups, found.cost) == ({"g"}, VictimCost(0, 5, 50))


def test_what_ends_anyway_is_waited_for_before_anybody_else_goes() -> None:
    """A pod that is being deleted costs nothing, whatever its priority was."""
    node = gpus((LEAVING, 0, [0]), (0, 1, [1]))
    found = find_victims(of_gpus(2, node), asked(1), [node])
    assert found is not None
    assert [each.key for each in found.victims] == ["v0"]


@pytest.mark.parametrize(("cpu", "gone"), [(4, 2), (2, 1)])
def test_cpu_that_victims_give_back_counts(cpu: int, gone: int) -> None:
    """A GPU is free after one has gone, and the pod needs the cpu of two."""
    node = gpus((0, 1, [0]), (0, 1, [1]), freed={"cpu": 2}, left={"cpu": 0, "pods": 0})
    found = find_victims(of_gpus(2, node), asked(1), [node], wanted={"cpu": cpu, "pods": 1})
    assert found is not None
    assert len(found.victims) == gone


@pytest.mark.slow
def test_the_same_cluster_gives_the_same_victims() -> None:
    """Not at random, although many sets cost the same."""

    def chosen(seed: int) -> list[str]:
        world = drawn(seed)
        alike = [tuple(replace(each, pods=1, lost=0, group="") for each in n.victims) for n in world.nodes]
        world.nodes = [replace(n, victims=own) for n, own in zip(world.nodes, alike, strict=True)]
        found = found_in(world, tries=40)
        return [each.key for each in found.victims] if found is not None else []

    # In 86 it shows in which order sets of equal cost are tried.
    for seed in range(60, 120):
        assert chosen(seed) == chosen(seed), seed


def test_a_demand_that_needs_nobody_to_go_has_no_victims() -> None:
    """It only waits for its turn."""
    node = gpus((0, 1, [0]), (0, 1, [1]))
    assert find_victims(of_gpus(3, node), asked(1), [node]) is None


def test_a_demand_that_no_victims_would_help_has_none() -> None:
    """Four GPUs are not on this node."""
    node = gpus((0, 1, [0]), (0, 1, [1]))
    assert find_victims(of_gpus(2, node), asked(4), [node]) is None
