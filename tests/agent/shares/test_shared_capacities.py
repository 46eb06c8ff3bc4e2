"""Whatever a shared GPU has, and whatever of it is held: the API server takes what is published, and it is not given away twice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apportion.agent.devices.simulated.cards import make
from apportion.agent.devices.simulated.simulation import Simulation
from apportion.agent.devices.values import Card
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, Share
from apportion.agent.slices.compose import compose
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.shares import PublishedSharing
from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.terms import Terms
from apportion.api.policy import SharingStrategy
from apportion.dra.claim import Claim
from apportion.dra.quantity import Quantity
from apportion.dra.slice import Slice
from testbed.controlplane import ControlPlane
from tests.agent.places import H100
from tests.agent.simulatednode import SLICES
from tests.allocator.publishednode import GUARD, PublishedNode, state_of

MIB = 2**20
MEMORY = st.integers(0, 200_000 * MIB) | st.integers(0, 32 * MIB)
"""Small amounts fill a card within a few claims."""
Json = dict[str, Any]


def gpu(memory: int) -> Card:
    """Return an H100 with so many bytes of memory."""
    ((card, *_),) = make(Simulation.model_validate({"cards": [H100]}), "n1")
    return replace(card, capacity={**card.capacity, "memory": memory})


def inventory(card: Card, most: int, held: list[int], strategy: SharingStrategy) -> NodeInventory:
    """Return a node that shares a card, of which claims that have lost it hold so many bytes each."""
    cores = 30 if strategy is SharingStrategy.MPS else 0
    rows = tuple(
        ClaimRow(
            f"held-{index}",
            "gpu.apportion.dev",
            "team",
            f"held-{index}",
            ClaimStep.PREPARED,
            (ClaimDevice("gpu-0", "gpu-0", "n1", ("r",), "x", share=Share(f"share-{index}", memory, cores)),),
        )
        for index, memory in enumerate(held)
    )
    sharing = PublishedSharing(strategy, most)
    return compose((card,), (), {}, rows, {}, sharing=sharing)


def broken_rules(capacity: Json) -> list[str]:
    """Return which rules of the API server capacities break (kubernetes pkg/apis/resource/validation, `validateRequestPolicy`)."""
    broken = []
    for name, entry in capacity.items():
        amount = {key: Quantity.parse(text).nano for key, text in _amounts(entry)}
        value, default = amount["value"], amount["default"]
        if "min" not in amount:
            rules = {
                "the default is a valid value": default == 0
                and entry["requestPolicy"]["validValues"] == ["0"]
            }
        else:
            step = amount.get("step")
            rules = {
                "min <= default <= max <= value": amount["min"] <= default <= amount["max"] <= value,
                "one step fits": step is None or amount["min"] + step <= value,
                "steps lead to the default": step is None or (default - amount["min"]) % step == 0,
                "steps lead to max": step is None or (amount["max"] - amount["min"]) % step == 0,
            }
        broken += [f"{name}: {rule}" for rule, holds in rules.items() if not holds]
    return broken


def _amounts(entry: Json) -> list[tuple[str, str]]:
    policy = entry["requestPolicy"]
    bounds = policy.get("validRange", {})
    return [("value", entry["value"]), ("default", policy["default"]), *bounds.items()]


def demand(name: str, wanted: Json) -> Demand:
    """Return a claim for a GPU. `wanted`: further fields of its request."""
    exact = {"deviceClassName": "gpu.apportion.dev", **wanted}
    raw = {"metadata": {"name": name, "namespace": "ns", "uid": name}}
    claim = Claim.from_json(raw | {"spec": {"devices": {"requests": [{"name": "r", "exactly": exact}]}}})
    return Demand((claim,), tolerations=(GUARD,))


@pytest.mark.slow
@settings(max_examples=150)
@given(
    memory=MEMORY,
    most=st.integers(1, 6) | st.integers(1, 256),
    strategy=st.sampled_from(SharingStrategy),
    held=st.lists(st.integers(0, 60_000 * MIB) | st.integers(0, 12 * MIB), max_size=5),
    asks=st.lists(
        st.none() | st.integers(0, 50_000 * MIB) | st.integers(0, 12 * MIB), min_size=1, max_size=12
    ),
)
@example(memory=10 * MIB, most=4, strategy=SharingStrategy.TIME_SLICING, held=[4 * MIB], asks=[10 * MIB])
@example(memory=10 * MIB, most=2, strategy=SharingStrategy.TIME_SLICING, held=[1], asks=[None, 1])
@example(memory=10 * MIB, most=9, strategy=SharingStrategy.MPS, held=[1, 1, 1], asks=[None] * 6)
def test_what_is_published_is_valid_and_never_given_away_twice(
    memory: int, most: int, strategy: SharingStrategy, held: list[int], asks: list[int | None]
) -> None:
    """Any memory, any number of claims, anything held: the allocator gives at most what the card has beside what is held."""
    card = gpu(memory)
    node = PublishedNode({}, inventory=inventory(card, most, held, strategy))
    rows = [row for each in node.slices for row in each["spec"].get("devices", ())]
    (whole,) = [row for row in rows if row["name"] == "gpu-0"]
    assert len(whole["attributes"]) + len(whole["capacity"]) <= 32
    if "allowMultipleAllocations" not in whole:
        assert memory < most * MIB
        return
    assert broken_rules(whole["capacity"]) == []
    for name, has in (("Memory", memory // MIB * MIB), ("Shares", most)):
        offered = Quantity.parse(whole["capacity"][name.lower()]["value"]).value
        assert offered + whole["attributes"].get(f"held{name}", {"int": 0})["int"] == has
    state = state_of(node)
    given_away = served = cores = 0
    for number, ask in enumerate(asks):
        wanted = {"capacity": {"requests": {"memory": str(ask)}}} if ask is not None else {}
        answer = allocate(state, demand(f"c{number}", wanted), Terms())
        if isinstance(answer, Decision):
            (result,) = answer.allocations[0].results
            assert result.device.name == "gpu-0"
            assert result.share_id
            amount = result.consumed["memory"].value
            assert amount >= (ask or 1)
            given_away, served = given_away + amount, served + 1
            cores += result.consumed["cores"].value if strategy is SharingStrategy.MPS else 0
            state.hold(f"c{number}", answer.allocations[0].results)
    assert given_away + sum(held) <= max(memory, sum(held))
    assert served + len(held) <= max(most, len(held))
    assert cores + (30 * len(held) if cores else 0) <= 100


@pytest.mark.parametrize("before", list(SharingStrategy))
def test_a_share_that_is_allocated_and_not_prepared_yet_keeps_those_of_the_other_strategy_off(
    before: SharingStrategy,
) -> None:
    """A policy changes meanwhile. Once it is prepared, the GPU is published as that share uses it, and others get shares of the same kind."""
    card, (after,) = gpu(80_000 * MIB), [each for each in SharingStrategy if each is not before]
    state = state_of(PublishedNode({}, inventory=inventory(card, 4, [], before)))
    first = allocate(state, demand("first", {}))
    assert isinstance(first, Decision)
    state.hold("first", first.allocations[0].results)

    def publish(prepared: Mapping[str, SharingStrategy]) -> None:
        sharing = PublishedSharing(after, 4)
        found = compose((card,), (), {}, (), {}, sharing=sharing, strategies=prepared)
        for raw in PublishedNode({}, inventory=found).slices:
            state.put_slice(Slice.from_json(raw))

    publish({})
    assert isinstance(allocate(state, demand("second", {})), Refusal)
    publish({"gpu-0": before})
    assert isinstance(allocate(state, demand("second", {})), Decision)
    publish({})
    state.release("first")
    assert isinstance(allocate(state, demand("second", {})), Decision)


async def test_the_server_takes_what_is_published_at_the_limits(control_plane: ControlPlane) -> None:
    """The rules above are those of the server that this runs on: the smallest card, one claim, one step left, many claims."""
    await taken_by(control_plane)


async def test_the_oldest_server_takes_it_too(oldest_control_plane: ControlPlane) -> None:
    """A taint without an effect included."""
    await taken_by(oldest_control_plane)


async def taken_by(cluster: ControlPlane) -> None:
    """Have the server check slices, and store none."""
    cases = [
        (1 * MIB, 1, []),
        (2 * MIB, 1, []),
        (2 * MIB, 2, [1 * MIB]),
        (256 * MIB, 256, []),
        (81559 * MIB + 17, 7, [30 * MIB, 81000 * MIB]),
        (81559 * MIB, 3, [81557 * MIB]),
        (81559 * MIB, 3, [81558 * MIB, 0]),
        (81559 * MIB, 2, [1, 1]),
    ]
    drawn = ((*case, strategy) for case in cases for strategy in SharingStrategy)
    for number, (memory, most, held, strategy) in enumerate(drawn):
        for published in PublishedNode({}, inventory=inventory(gpu(memory), most, held, strategy)).slices:
            if "devices" not in published["spec"]:
                continue
            (whole,) = [row for row in published["spec"]["devices"] if row["name"] == "gpu-0"]
            assert broken_rules(whole["capacity"]) == []
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"limits-{number}"},
                "spec": published["spec"],
            }
            stored = await cluster.api.create(SLICES, body, fieldValidation="Strict", dryRun="All")
            (kept,) = [row for row in stored["spec"]["devices"] if row["name"] == "gpu-0"]
            assert (kept["capacity"], kept["allowMultipleAllocations"]) == (whole["capacity"], True)
