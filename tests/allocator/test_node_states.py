"""Nodes that are alike are looked at once; nobody can tell by the answers."""

import copy
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput
from tests.allocator.builders import GPU, A, chips, claim, cluster, device, piece, want
from tests.allocator.randomworlds import worlds

NODES = tuple(f"node-{number}" for number in range(5))
MANY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
"""Not made smaller when one fails: that takes minutes, and the message says enough."""


def fleet(raw: dict[str, Any], odd: dict[str, Any] | None) -> list[Slice]:
    """Return the slices of like nodes, each with UUIDs of its own; the last node is built as `odd` says."""
    found = []
    for name in NODES:
        rows = (odd if odd is not None and name == NODES[-1] else raw)["slices"]
        for row in copy.deepcopy(rows):
            row["metadata"] |= {
                "name": f"{row['metadata']['name']}-{name}",
                "uid": f"{row['metadata']['name']}-{name}",
            }
            row["spec"]["nodeName"] = row["spec"]["pool"]["name"] = name
            for one in row["spec"].get("devices") or ():
                one["attributes"]["uuid"] = {"string": f"{name}-{one['name']}"}
            found.append(Slice.from_json(row))
    return found


def republished(state: State, slices: list[Slice], node: str, raw: dict[str, Any]) -> list[Slice]:
    """Publish a node anew, as another world has it; return the slices that are there now."""
    kept = [one for one in slices if one.pool.name != node]
    for one in slices:
        if one.pool.name == node:
            state.drop_slice(one.uid)
    fresh = [one for one in fleet(raw, None) if one.pool.name == node]
    for one in fresh:
        state.put_slice(one)
    return kept + fresh


def told(raw: dict[str, Any], slices: list[Slice], held: dict[str, tuple[DeviceResult, ...]]) -> State:
    """Return a state that was told the facts just now."""
    state = read_world(raw | {"slices": [], "claims": [], "allocated": {}}).state
    state.drop_node("node-1")
    for name in NODES:
        state.put_node(name, {})
    for one in slices:
        state.put_slice(one)
    for key, results in held.items():
        state.hold(key, results)
    return state


def outcome(state: State, demand: Demand, strategy: Strategy, *, reuse: bool = True) -> object:
    """Return the decision, the verdict, or the error's text."""
    try:
        found = allocate(state, demand, Terms(strategy), reuse=reuse)
    except BrokenInput as error:
        return str(error)
    return found if isinstance(found, Decision) else found.verdict


@pytest.mark.parametrize("most", [1, 48], ids=["personal", "shared"])
@MANY
@given(
    raw=worlds(),
    odd=st.none() | worlds(),
    more=st.lists(worlds(), min_size=2, max_size=5),
    seed=st.integers(0, 1000),
    strategy=st.sampled_from(Strategy),
)
def test_like_nodes_answer_as_if_each_had_been_asked(
    most: int,
    raw: dict[str, Any],
    odd: dict[str, Any] | None,
    more: list[dict[str, Any]],
    seed: int,
    strategy: Strategy,
) -> None:
    """Claims and slices come and go on one state; each answer is that of a search of every node, newly told."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    slices = fleet(raw, odd)
    held: dict[str, tuple[DeviceResult, ...]] = {}
    asked = [tuple(map(Claim.from_json, other["claims"])) for other in more]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apportion.allocator.equivalence.nodeclasses.MOST_COLUMNS", most)
        patch.setattr("apportion.allocator.nodeoutcomes.FEW_CLASSES", 0)
        state = told(raw, slices, held)
        for turn in range(12):
            if rng.random() < 0.2:
                slices = republished(state, slices, rng.choice(NODES), rng.choice((raw, odd or raw)))
            if held and rng.random() < 0.3:
                key = rng.choice(sorted(held))
                state.release(key)
                del held[key]
            claims = rng.choice(asked)
            given_ = outcome(state, Demand(claims), strategy)
            # Another budget: nothing remembered is used, and few named nodes are searched one by one.
            every = Demand(claims, nodes=frozenset(NODES))
            assert given_ == outcome(told(raw, slices, held), every, strategy, reuse=False)
            event(type(given_).__name__)
            if isinstance(given_, Decision):
                for number, one in enumerate(given_.allocations):
                    held[f"{turn}-{number}"] = one.results
                    state.hold(f"{turn}-{number}", one.results)


def test_a_selector_that_reads_what_differs_finds_its_node() -> None:
    """UUIDs are no part of what nodes have in common; who asks for one gets it."""
    names = [f"n{number:03d}" for number in range(100)]
    rows = [piece(name, name, [device(f"gpu-{index}") for index in range(2)]) for name in names]
    for name in names:
        one = device("gpu-2", "marked")
        one["attributes"]["uuid"] = {"string": f"GPU-{name}"}
        rows.append(piece(f"{name}-marked", name, [one], pool=f"{name}-marked"))
    state = cluster(*rows, nodes=names)

    def ask(text: str) -> Decision | Refusal:
        selectors = [{"cel": {"expression": text}}]
        return allocate(state, Demand((claim("c", want(kind="marked", selectors=selectors)),)))

    found = ask(f'{A}.?uuid.orValue("") == "GPU-n073"')
    assert isinstance(found, Decision)
    assert found.node == "n073"
    state.hold("a", found.allocations[0].results)
    assert isinstance(ask(f'{A}.?uuid.orValue("") == "GPU-n073"'), Refusal)
    other = ask(f'{A}.kind == "marked" && {A}.uuid != "GPU-n000"')
    assert isinstance(other, Decision)
    assert other.node == "n001"


def test_an_error_names_the_device_on_the_node_that_it_is_told_of() -> None:
    """Not the device of another node that stands alike."""
    state = cluster(*(piece(name, name, [device("gpu-0")]) for name in ("n1", "n2")), nodes=("n1", "n2"))
    demand = Demand((claim("c", want(selectors=[{"cel": {"expression": f"{A}.size > 2"}}])),))

    with pytest.raises(BrokenInput, match=f"{GPU}/n1/gpu-0"):
        allocate(state, demand)

    state.drop_node("n1")
    with pytest.raises(BrokenInput, match=f"{GPU}/n2/gpu-0"):
        allocate(state, demand)


def test_a_node_that_is_published_anew_stands_where_its_devices_say() -> None:
    """Fewer devices, then as before."""
    state = cluster(*chips("n1"), *chips("n2"), nodes=("n1", "n2"))
    demand = Demand((claim("c", want(kind="whole")),))
    part = DeviceId(GPU, "n1", "chip-0-part-1")
    state.hold("a", [DeviceResult("r", part)])
    first = allocate(state, demand)
    assert isinstance(first, Decision)
    assert first.node == "n2"

    state.put_slice(piece("n2-devices", "n2", [device("gpu-9")], count=2))
    assert isinstance(allocate(state, demand), Refusal)

    state.release("a")
    second = allocate(state, demand)
    assert isinstance(second, Decision)
    assert second.node == "n1"


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_chips_come_and_go_as_if_every_node_had_been_asked(seed: int) -> None:
    """The same for counters: long sequences on chips that all look the same at first."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    names = ("n1", "n2", "n3")
    slices = [one for name in names for one in chips(name, 2)]
    asks = [
        want(kind="whole"),
        want(kind="part"),
        want(kind="part", count=3),
        {
            "name": "r",
            "firstAvailable": [want(kind=kind)["exactly"] | {"name": kind} for kind in ("whole", "part")],
        },
    ]
    state = cluster(*slices, nodes=names)
    held: dict[str, tuple[DeviceResult, ...]] = {}
    for turn in range(60):
        if held and rng.random() < 0.45:
            key = rng.choice(sorted(held))
            state.release(key)
            del held[key]
        claims = (claim(f"c{turn}", rng.choice(asks)),)
        fresh = cluster(*slices, nodes=names)
        for key, results in held.items():
            fresh.hold(key, results)
        found = outcome(state, Demand(claims), Strategy.PACK)
        assert found == outcome(fresh, Demand(claims, nodes=frozenset(names)), Strategy.PACK, reuse=False)
        if isinstance(found, Decision):
            held[f"c{turn}"] = found.allocations[0].results
            state.hold(f"c{turn}", found.allocations[0].results)


@pytest.mark.parametrize("first", [3, 5])
def test_questions_that_were_one_part_when_a_node_comes_that_tells_them_apart(first: int) -> None:
    """Selectors that accepted the same devices so far need not do so on a new kind of node."""
    state = cluster(piece("n1", "n1", [device("gpu-0") | sized(1)]), nodes=("n1", "n2"))

    def ask(below: int) -> Decision | Refusal:
        selectors = [{"cel": {"expression": f"{A}.size < {below}"}}]
        return allocate(state, Demand((claim("c", want(selectors=selectors)),)))

    second = 8 - first
    for below in (first, second):
        found = ask(below)
        assert isinstance(found, Decision)
        assert found.node == "n1"
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])
    state.put_slice(piece("n2", "n2", [device("gpu-0") | sized(4)]))

    verdicts = {below: isinstance(ask(below), Decision) for below in (first, second)}
    assert verdicts == {3: False, 5: True}
    state.release("a")
    assert all(isinstance(ask(below), Decision) for below in (first, second))


def sized(size: int) -> dict[str, Any]:
    """Return attributes of a device of this size."""
    return {"attributes": {"kind": {"string": "gpu"}, "size": {"int": size}}}
