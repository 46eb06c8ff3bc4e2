"""Nodes of equal state share one outcome: answers equal those of a search of every node."""

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
from tests.allocator.builders import GPU, A, chips, claim, cluster, device, device_request, device_slice
from tests.allocator.randomworlds import NUMA, RING, worlds

NODES = tuple(f"node-{number}" for number in range(5))
AGREEING = NODES[2]
"""The node on which all devices have one value of RING."""
Held = dict[str, tuple[list[Slice], tuple[DeviceResult, ...]]]
"""Results by key, with the slices that were published when they were taken."""
MANY = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
"""A failing example is not shrunk: that takes minutes, and the message suffices."""


def fleet(raw: dict[str, Any], odd: dict[str, Any] | None) -> list[Slice]:
    """Return the slices of nodes; the last is built from `odd`, the others are equal except for UUIDs and compared values.

    NUMA and RING have other values on each node, and the same devices agree in them; on `AGREEING`, all agree in RING.
    """
    found = []
    for number, name in enumerate(NODES):
        rows = (odd if odd is not None and name == NODES[-1] else raw)["slices"]
        for row in copy.deepcopy(rows):
            row["metadata"] |= {
                "name": f"{row['metadata']['name']}-{name}",
                "uid": f"{row['metadata']['name']}-{name}",
            }
            row["spec"]["nodeName"] = row["spec"]["pool"]["name"] = name
            for one in row["spec"].get("devices") or ():
                values = one["attributes"]
                values["uuid"] = {"string": f"{name}-{one['name']}"}
                values |= {key: _shifted(values[key], 10 * number) for key in (NUMA, RING) if key in values}
                if name == AGREEING:
                    values[RING] = {"int": 0}
            found.append(Slice.from_json(row))
    return found


def _shifted(value: dict[str, Any], by: int) -> dict[str, Any]:
    """Return a value of the same type that equals another shifted value exactly if the originals are equal."""
    [(kind, plain)] = value.items()
    if kind == "ints":
        return {kind: [one + by for one in plain]}
    return {kind: plain + by if kind == "int" else f"{plain}-{by}" if kind == "string" else plain}


def variants(claims: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return claims that differ in their constraints only: none, and each kind on each attribute."""
    constraints: list[list[dict[str, str]]] = [
        [],
        *([{kind: name}] for kind in ("matchAttribute", "distinctAttribute") for name in (NUMA, RING)),
    ]
    return [
        [one | {"spec": {"devices": one["spec"]["devices"] | {"constraints": rows}}} for one in claims]
        for rows in constraints
    ]


def republished(state: State, slices: list[Slice], node: str, raw: dict[str, Any]) -> list[Slice]:
    """Republish a node with another world's devices; return the slices that exist now."""
    kept = [one for one in slices if one.pool.name != node]
    for one in slices:
        if one.pool.name == node:
            state.drop_slice(one.uid)
    fresh = [one for one in fleet(raw, None) if one.pool.name == node]
    for one in fresh:
        state.put_slice(one)
    return kept + fresh


def state_with(raw: dict[str, Any], slices: list[Slice], held: Held) -> State:
    """Return a new state with these facts; a device draws from counters what it drew when it was taken."""
    state = read_world(raw | {"slices": [], "claims": [], "allocated": {}}).state
    state.drop_node("node-1")
    for name in NODES:
        state.put_node(name, {})
    known: list[Slice] = []
    for key, (then, results) in [*held.items(), ("", (slices, ()))]:
        if then is not known:
            for one in known:
                state.drop_slice(one.uid)
            for one in then:
                state.put_slice(one)
            known = then
        state.hold(key, results)
    return state


def outcome(state: State, demand: Demand, strategy: Strategy, *, reuse: bool = True) -> object:
    """Return the decision, the verdict, or the error's text."""
    try:
        found = allocate(state, demand, Terms(strategy), reuse=reuse)
    except BrokenInput as error:
        return str(error)
    return found if isinstance(found, Decision) else found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 48], ids=["per-node", "shared"])
@MANY
@given(
    raw=worlds(),
    odd=st.none() | worlds(),
    more=st.lists(worlds(), min_size=2, max_size=5),
    seed=st.integers(0, 1000),
    strategy=st.sampled_from(Strategy),
)
def test_shared_outcomes_equal_a_search_of_every_node(
    most: int,
    raw: dict[str, Any],
    odd: dict[str, Any] | None,
    more: list[dict[str, Any]],
    seed: int,
    strategy: Strategy,
) -> None:
    """Claims and slices change on one state; each answer equals that of a new state which reuses no outcome."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    slices = fleet(raw, odd)
    held: Held = {}
    raws = [*variants(more[0]["claims"]), *(other["claims"] for other in more)]
    asked = [tuple(map(Claim.from_json, claims)) for claims in raws]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apportion.allocator.equivalence.nodeclasses.MOST_COLUMNS", most)
        patch.setattr("apportion.allocator.nodeoutcomes.FEW_CLASSES", 0)
        state = state_with(raw, slices, held)
        for turn in range(12):
            if rng.random() < 0.2:
                slices = republished(state, slices, rng.choice(NODES), rng.choice((raw, odd or raw)))
            if held and rng.random() < 0.3:
                key = rng.choice(sorted(held))
                state.release(key)
                del held[key]
            claims = rng.choice(asked)
            given_ = outcome(state, Demand(claims), strategy)
            # The reference names the allowed nodes, so that it searches one by one.
            every = Demand(claims, nodes=frozenset(NODES))
            assert given_ == outcome(state_with(raw, slices, held), every, strategy, reuse=False)
            event(type(given_).__name__)
            if isinstance(given_, Decision):
                for number, one in enumerate(given_.allocations):
                    held[f"{turn}-{number}"] = slices, one.results
                    state.hold(f"{turn}-{number}", one.results)


def test_a_selector_on_a_per_node_attribute_finds_its_node() -> None:
    """UUIDs are not part of a node class; a selector on a UUID finds its node all the same."""
    names = [f"n{number:03d}" for number in range(100)]
    rows = [device_slice(name, name, [device(f"gpu-{index}") for index in range(2)]) for name in names]
    for name in names:
        one = device("gpu-2", "marked")
        one["attributes"]["uuid"] = {"string": f"GPU-{name}"}
        rows.append(device_slice(f"{name}-marked", name, [one], pool=f"{name}-marked"))
    state = cluster(*rows, nodes=names)

    def ask(text: str) -> Decision | Refusal:
        selectors = [{"cel": {"expression": text}}]
        return allocate(state, Demand((claim("c", device_request(kind="marked", selectors=selectors)),)))

    found = ask(f'{A}.?uuid.orValue("") == "GPU-n073"')
    assert isinstance(found, Decision)
    assert found.node == "n073"
    state.hold("a", found.allocations[0].results)
    assert isinstance(ask(f'{A}.?uuid.orValue("") == "GPU-n073"'), Refusal)
    other = ask(f'{A}.kind == "marked" && {A}.uuid != "GPU-n000"')
    assert isinstance(other, Decision)
    assert other.node == "n001"


def test_a_selector_error_names_a_device_of_an_existing_node() -> None:
    """Not the device of another node in the same state."""
    state = cluster(
        *(device_slice(name, name, [device("gpu-0")]) for name in ("n1", "n2")), nodes=("n1", "n2")
    )
    demand = Demand((claim("c", device_request(selectors=[{"cel": {"expression": f"{A}.size > 2"}}])),))

    with pytest.raises(BrokenInput, match=f"{GPU}/n1/gpu-0"):
        allocate(state, demand)

    state.drop_node("n1")
    with pytest.raises(BrokenInput, match=f"{GPU}/n2/gpu-0"):
        allocate(state, demand)


def test_a_republished_node_gets_the_state_of_its_new_devices() -> None:
    """It loses devices, and another node becomes free."""
    state = cluster(*chips("n1"), *chips("n2"), nodes=("n1", "n2"))
    demand = Demand((claim("c", device_request(kind="whole")),))
    part = DeviceId(GPU, "n1", "chip-0-part-1")
    state.hold("a", [DeviceResult("r", part)])
    first = allocate(state, demand)
    assert isinstance(first, Decision)
    assert first.node == "n2"

    state.put_slice(device_slice("n2-devices", "n2", [device("gpu-9")], count=2))
    assert isinstance(allocate(state, demand), Refusal)

    state.release("a")
    second = allocate(state, demand)
    assert isinstance(second, Decision)
    assert second.node == "n1"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_shared_outcomes_on_partitionable_chips_equal_a_search_of_every_node(seed: int) -> None:
    """The same property for counters: long sequences on chips that are equal at the start."""
    rng = random.Random(seed)  # noqa: S311 - reproducible
    names = ("n1", "n2", "n3")
    slices = [one for name in names for one in chips(name, 2)]
    requests = [
        device_request(kind="whole"),
        device_request(kind="part"),
        device_request(kind="part", count=3),
        {
            "name": "r",
            "firstAvailable": [
                device_request(kind=kind)["exactly"] | {"name": kind} for kind in ("whole", "part")
            ],
        },
    ]
    state = cluster(*slices, nodes=names)
    held: dict[str, tuple[DeviceResult, ...]] = {}
    for turn in range(60):
        if held and rng.random() < 0.45:
            key = rng.choice(sorted(held))
            state.release(key)
            del held[key]
        claims = (claim(f"c{turn}", rng.choice(requests)),)
        fresh = cluster(*slices, nodes=names)
        for key, results in held.items():
            fresh.hold(key, results)
        found = outcome(state, Demand(claims), Strategy.PACK)
        assert found == outcome(fresh, Demand(claims, nodes=frozenset(names)), Strategy.PACK, reuse=False)
        if isinstance(found, Decision):
            held[f"c{turn}"] = found.allocations[0].results
            state.hold(f"c{turn}", found.allocations[0].results)


@pytest.mark.parametrize("first", [3, 5])
def test_queries_with_one_representative_split_when_a_new_node_class_distinguishes_them(first: int) -> None:
    """Selectors that matched the same devices so far may differ on a new node class."""
    state = cluster(device_slice("n1", "n1", [device("gpu-0") | sized(1)]), nodes=("n1", "n2"))

    def ask(below: int) -> Decision | Refusal:
        selectors = [{"cel": {"expression": f"{A}.size < {below}"}}]
        return allocate(state, Demand((claim("c", device_request(selectors=selectors)),)))

    second = 8 - first
    for below in (first, second):
        found = ask(below)
        assert isinstance(found, Decision)
        assert found.node == "n1"
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])
    state.put_slice(device_slice("n2", "n2", [device("gpu-0") | sized(4)]))

    verdicts = {below: isinstance(ask(below), Decision) for below in (first, second)}
    assert verdicts == {3: False, 5: True}
    state.release("a")
    assert all(isinstance(ask(below), Decision) for below in (first, second))


def sized(size: int) -> dict[str, Any]:
    """Return the attributes of a device of this size."""
    return {"attributes": {"kind": {"string": "gpu"}, "size": {"int": size}}}
