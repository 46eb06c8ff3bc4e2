"""Devices that serve several claims by capacity: amounts written, places chosen."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.strategies.pricedplans import FEW_CLASSES
from apportion.allocator.terms import Terms
from apportion.dra.slice import Slice
from tests.allocator.builders import ROOT, Raw, amounts, claim, cluster, device, device_request, device_slice
from tests.steps import Steps

LEAST = Strategy.LEAST_FRAGMENTATION
MANY = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
"""A failing example is not shrunk: that takes minutes, and the message suffices."""


@pytest.mark.parametrize(
    ("asked", "policy", "written"),
    [
        ("10G", None, "10G"),
        ("9765625Ki", None, "9765625Ki"),
        ("10240Mi", None, "10Gi"),
        ("10G", {"default": "1M", "validRange": {"min": "1M", "step": "1M"}}, "10G"),
        ("9765625Ki", {"default": "1M", "validRange": {"min": "1M", "step": "1M"}}, "10G"),
        ("1500M", {"default": "1Gi", "validRange": {"min": "0", "step": "1Gi"}}, "2Gi"),
        ("1", {"default": "1M", "validRange": {"min": "1Mi"}}, "1Mi"),
        ("10G", {"default": "1Gi", "validRange": {"min": "1Gi"}}, "10G"),
        ("10G", {"default": "9765625Ki", "validValues": ["9765625Ki"]}, "9765625Ki"),
        (None, {"default": "1G", "validRange": {"min": "1"}}, "1G"),
    ],
)
def test_consumed_amounts_keep_the_format_of_the_request_or_of_its_policy(
    asked: str | None, policy: dict[str, Any] | None, written: str
) -> None:
    """As kube-scheduler 1.37 writes them; a claim with the same amount in another format changes nothing."""
    entry = {"value": "40G"} | ({"requestPolicy": policy} if policy else {})
    state = cluster(
        device_slice("s", "n1", [device("gpu-0", allowMultipleAllocations=True, capacity={"rate": entry})])
    )

    def consumed(amount: str | None) -> str:
        capacity = {"capacity": {"requests": {"rate": amount}}} if amount else {}
        answer = allocate(state, Demand((claim(f"c-{amount}", device_request(**capacity)),)))
        assert isinstance(answer, Decision)
        found: str = answer.allocations[0].to_json()["devices"]["results"][0]["consumedCapacity"]["rate"]
        return found

    consumed("10G"), consumed("9765625Ki")
    assert consumed(asked) == written


def cards(count: int, kind: str = "gpu", **units: int) -> list[Raw]:
    """Return devices to share."""
    return [
        device(f"{kind}-{index}", kind, allowMultipleAllocations=True, capacity=amounts(**units))
        for index in range(count)
    ]


def share(kind: str = "gpu", count: int = 1, **units: int) -> Raw:
    """Return a request for shares of so many devices."""
    wanted = {"capacity": {"requests": {name: str(amount) for name, amount in units.items()}}}
    return device_request(kind=kind, count=count, **(wanted if units else {}))


def test_equal_nodes_with_devices_to_share_are_one_class_and_differ_by_capacity_and_policy() -> None:
    """Capacity and request policy decide what a share takes; nodes that differ in neither share their outcomes."""
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    other = cards(2, units=10)
    for row in other:
        row["capacity"]["units"]["requestPolicy"] = policy
    rows = {name: cards(2, units=10) for name in ("n1", "n2", "n3", "n4")}
    rows |= {"n5": cards(2, units=12), "n6": other}
    state = cluster(*(device_slice(name, name, row) for name, row in rows.items()), nodes=tuple(rows))
    state.settle()
    assert state.class_count == 3


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.SPREAD, LEAST])
def test_a_share_costs_a_look_at_the_nodes_that_changed(strategy: Strategy) -> None:
    """However many nodes there are: outcomes are kept by node state."""
    nodes = [f"n{number:03d}" for number in range(200)]
    state = cluster(*(device_slice(name, name, cards(2, units=10)) for name in nodes), nodes=nodes)

    def ask(number: int) -> None:
        answer = allocate(state, Demand((claim(f"c{number}", share(units=3)),)), Terms(strategy))
        assert isinstance(answer, Decision)
        state.hold(f"c{number}", answer.allocations[0].results)

    for number in range(20):
        ask(number)
    with Steps(State.view) as looked:
        for number in range(20, 60):
            ask(number)
    assert 0 < looked.count <= 40 * 8


class Worlds:
    """Random clusters of nodes with devices to share, and random claims for shares, by seed.

    `apart`: PCIe roots are drawn, so that equal devices are arranged differently on every node; and all can be shared.
    """

    def __init__(self, seed: int, *, apart: bool = False) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - reproducible
        self.apart = apart
        many = 3 * FEW_CLASSES if apart else 0
        self.nodes = tuple(f"n{number:02d}" for number in range(many + self.rng.randint(1, 5)))
        self.pieces = [piece for name in self.nodes for piece in self._of_kind(name, self.rng.randint(0, 1))]

    def _of_kind(self, name: str, kind: int) -> Sequence[Slice]:
        """Nodes of one kind are equal."""
        rng = random.Random(f"{kind}/{len(self.nodes)}/{self.rng.random() < 0.1}")  # noqa: S311
        rows = []
        for index in range(rng.randint(3, 5) if self.apart else rng.randint(1, 4)):
            more: Raw = {}
            units = amounts(memory=rng.choice([4, 8, 10]))
            if rng.random() < 0.3:
                units |= amounts(rate=rng.choice([2, 4]))
                if rng.random() < 0.5:
                    units["rate"]["requestPolicy"] = {"default": "1", "validRange": {"min": "1"}}
            if rng.random() < 0.8 or self.apart:
                more["allowMultipleAllocations"] = True
            use = {"engines": rng.choice([1, 2, 4])} if rng.random() < 0.4 and not self.apart else None
            rows.append(device(f"d{index}", rng.choice("xy"), use, "set", capacity=units, **more))
            if self.apart:
                rows[-1]["attributes"][ROOT] = {"string": f"pci-{self.rng.randrange(3)}"}
        sets = [{"name": "set", "counters": amounts(engines=4)}]
        return (
            device_slice(f"{name}-d", name, rows, count=2),
            device_slice(f"{name}-c", name, count=2, sharedCounters=sets),
        )

    def request(self, name: str) -> Raw:
        """Return a request for shares, or for devices."""
        rng = self.rng
        wanted = {"memory": rng.choice([1, 2, 3, 5, 8])} if rng.random() < 0.8 else {}
        wanted |= {"rate": rng.choice([1, 2])} if rng.random() < 0.1 else {}
        return share(rng.choice(["x", "x", "y", ""]), rng.choice([1, 1, 1, 2]), **wanted) | {"name": name}


@pytest.mark.slow
@MANY
@given(seed=st.integers(0, 1 << 32), strategy=st.sampled_from(Strategy), hosts=st.booleans())
def test_shares_are_placed_where_a_search_of_every_node_places_them(
    seed: int,
    strategy: Strategy,
    hosts: bool,  # noqa: FBT001 - drawn
) -> None:
    """Claims come and go; each answer equals that of the reference, which reuses no outcome and no price."""
    compare_with_search(Worlds(seed), strategy, hosts=hosts)


@pytest.mark.slow
@settings(MANY, max_examples=25)
@given(seed=st.integers(0, 1 << 32), hosts=st.booleans())
def test_shares_are_estimated_right_where_every_node_is_a_class_of_its_own(
    seed: int,
    hosts: bool,  # noqa: FBT001 - drawn
) -> None:
    """Classes on which the same devices match share estimates; which device is taken still depends on the node's own topology."""
    compare_with_search(Worlds(seed, apart=True), LEAST, hosts=hosts, turns=15)


def compare_with_search(worlds: "Worlds", strategy: Strategy, *, hosts: bool, turns: int = 30) -> None:
    """Let claims come and go; compare each answer with the reference's."""
    rng = worlds.rng
    state = cluster(*worlds.pieces, nodes=worlds.nodes)
    left = {name: HostResources(rng.choice([8, 64]), rng.choice([8, 64])) for name in worlds.nodes}
    shapes = [
        (
            [worlds.request(f"r{number}") for number in range(rng.choice([1, 1, 1, 2]))],
            HostResources(rng.randint(0, 6), 1),
        )
        for _ in range(4)
    ]
    held: dict[str, tuple[str, HostResources]] = {}
    for turn in range(turns):
        requests, asked = rng.choice(shapes)
        if held and rng.random() < 0.25:
            key = rng.choice(sorted(held))
            state.release(key)
            name, amount = held.pop(key)
            left[name] = left[name].plus(amount)
        if hosts:
            for name in worlds.nodes:
                state.put_host(name, left[name])
        fitting = frozenset(name for name in worlds.nodes if left[name].holds(asked)) if hosts else None
        demand = Demand((claim(f"c{turn}", *requests),), fitting, host=HostDemand(asked) if hosts else None)
        found, reference = (allocate(state, demand, Terms(strategy), reuse=reuse) for reuse in (True, False))
        event(type(found).__name__)
        assert type(found) is type(reference)
        if found.asked is not None:
            state.learn(found.asked, asked if hosts else None)
        if isinstance(found, Decision) and isinstance(reference, Decision):
            assert (found.node, found.allocations) == (reference.node, reference.allocations), turn
            state.hold(f"c{turn}", found.allocations[0].results)
            held[f"c{turn}"] = found.node, asked
            left[found.node] = left[found.node].less(asked)


@pytest.mark.slow
@settings(MANY, max_examples=25)
@given(seed=st.integers(0, 1 << 32))
@example(seed=1102)
def test_shares_are_placed_where_a_new_state_with_equal_facts_places_them(seed: int) -> None:
    """What was computed for one claim is no answer for another that takes another amount of the same device."""
    worlds = Worlds(seed)
    rng = worlds.rng
    shapes = [(worlds.request("r0"), HostResources(rng.randint(1, 6), 1)) for _ in range(rng.randint(2, 4))]
    left = {name: HostResources(rng.choice([4, 8, 16]), 64) for name in worlds.nodes}
    held: dict[str, Decision] = {}

    def learnt() -> State:
        """Return a state that knows the demand and the nodes only."""
        state = cluster(*worlds.pieces, nodes=worlds.nodes)
        for request, asked in 8 * shapes:
            found = allocate(state, Demand((claim("learnt", request),)))
            if found.asked is not None:
                state.learn(found.asked, asked)
        return state

    state = learnt()
    for turn in range(10):
        request, asked = rng.choice(shapes)
        fresh = learnt()
        for key, decision in held.items():
            fresh.hold(key, decision.allocations[0].results)
        for one in (state, fresh):
            for name in worlds.nodes:
                one.put_host(name, left[name])
        fitting = frozenset(name for name in worlds.nodes if left[name].holds(asked))
        demand = Demand((claim(f"c{turn}", request),), fitting, host=HostDemand(asked))
        found, reference = (allocate(one, demand, Terms(LEAST)) for one in (state, fresh))
        event(type(found).__name__)
        assert type(found) is type(reference)
        if isinstance(found, Decision) and isinstance(reference, Decision):
            assert (found.node, found.allocations) == (reference.node, reference.allocations), turn
            state.hold(f"c{turn}", found.allocations[0].results)
            held[f"c{turn}"] = found
            left[found.node] = left[found.node].less(asked)


def partitions(cards_: int) -> list[Slice]:
    """Return cards of 80 Gi, each four partitions of 20 Gi that several claims may share."""
    rows = [
        device(f"card-{card}-p{part}", "gpu", {"memory": "20Gi"}, f"card-{card}", **shared)
        for card in range(cards_)
        for part in range(4)
        for shared in [{"allowMultipleAllocations": True, "capacity": amounts(memory="20Gi")}]
    ]
    sets = [{"name": f"card-{card}", "counters": amounts(memory="80Gi")} for card in range(cards_)]
    return [device_slice("d", "n1", rows, count=2), device_slice("c", "n1", count=2, sharedCounters=sets)]


@pytest.mark.parametrize("strategy", [Strategy.FIRST_FIT, Strategy.PACK, LEAST])
@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_partition_in_use_is_shared_before_another_one_is_opened(
    strategy: Strategy,
    learn: bool,  # noqa: FBT001
    count: int,
) -> None:
    """Four claims of 8 Gi take two partitions of a card, so that two claims of 20 Gi fit beside them."""
    state = cluster(*partitions(count))
    wanted = ["8Gi"] * 4 * count + ["20Gi"] * 2 * count
    taken = []
    for number, amount in enumerate(wanted):
        request = device_request(capacity={"requests": {"memory": amount}})
        found = allocate(state, Demand((claim(f"c{number}", request),)), Terms(strategy))
        assert isinstance(found, Decision), (number, taken)
        if learn and found.asked is not None:
            state.learn(found.asked)
        state.hold(f"c{number}", found.allocations[0].results)
        taken.append(found.allocations[0].results[0].device.name)
    assert len(set(taken[: 4 * count])) == 2 * count
