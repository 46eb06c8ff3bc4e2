"""The node and the devices that `allocate` chooses, and the limits at which it refuses."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.strategies.stateless import STATELESS
from apportion.allocator.terms import Terms
from apportion.api.policy import Strategy as PolicyStrategy
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput, TooMuch
from tests.allocator.builders import (
    GPU,
    NUMA,
    A,
    amounts,
    chips,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
)


def fleet(*free: int) -> State:
    """Return nodes n1, n2, ... of eight devices with these numbers of free devices."""
    nodes = [f"n{index + 1}" for index in range(len(free))]
    state = cluster(
        *(device_slice(name, name, [device(f"gpu-{index}") for index in range(8)]) for name in nodes),
        nodes=nodes,
    )
    for name, count in zip(nodes, free, strict=True):
        state.hold(
            name, [DeviceResult("r", DeviceId(GPU, name, f"gpu-{index}")) for index in range(8 - count)]
        )
    return state


def chosen(state: State, demand: Demand, strategy: Strategy = Strategy.PACK, **more: object) -> Decision:
    """Return the decision; fails on a refusal."""
    found = allocate(state, demand, Terms(strategy), **more)  # type: ignore[arg-type]
    assert isinstance(found, Decision), found
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "node"),
    [(Strategy.FIRST_FIT, "n1"), (Strategy.PACK, "n2"), (Strategy.SPREAD, "n3")],
)
def test_each_strategy_chooses_its_node(strategy: Strategy, node: str) -> None:
    """FirstFit takes the first node that fits, Pack the fullest, Spread the emptiest."""
    state = fleet(5, 3, 8, 1)

    assert chosen(state, Demand((claim("c", device_request(count=2)),)), strategy=strategy).node == node


def test_only_allowed_nodes_are_chosen() -> None:
    """Unknown names among them are ignored."""
    state = fleet(5, 3, 8)

    assert (
        chosen(state, Demand((claim("c", device_request()),), nodes=frozenset({"n1", "n3", "x"}))).node
        == "n1"
    )
    assert isinstance(allocate(state, Demand((claim("c", device_request()),), nodes=frozenset())), Refusal)


def test_pack_takes_parts_of_a_partitioned_chip_and_spread_of_an_unused_one() -> None:
    """Pack leaves whole chips whole, on the node and among nodes; Spread takes an unused chip."""
    state = cluster(*chips("n1", 2), *chips("n2", 2), nodes=("n1", "n2"))
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n2", "chip-1-part-0"))])
    demand = Demand((claim("c", device_request(kind="part", count=2)),))

    packed = chosen(state, demand)
    spread = chosen(state, demand, strategy=Strategy.SPREAD)

    assert [result.device.name for result in packed.allocations[0].results] == [
        "chip-1-part-1",
        "chip-1-part-2",
    ]
    assert packed.node == "n2"
    assert {result.device.name[:6] for result in spread.allocations[0].results} == {"chip-0", "chip-1"}
    assert spread.node == "n1"


def test_a_preferred_device_precedes_the_strategy() -> None:
    """A live idle partition of the profile is used wherever it is."""
    state = cluster(*chips("n1", 2), *chips("n2", 2), nodes=("n1", "n2"))
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n2", "chip-1-part-0"))])
    idle = DeviceId(GPU, "n1", "chip-1-part-3")

    found = chosen(state, Demand((claim("c", device_request(kind="part")),)), prefer={idle: 1})

    assert found.allocations[0].results[0].device == idle
    assert chosen(state, Demand((claim("c", device_request(kind="part")),))).node == "n2"


def test_an_excluded_device_is_not_chosen() -> None:
    """The exclusion holds for this demand only."""
    state = cluster(device_slice("s", "n1", [device("gpu-0"), device("gpu-1")]))
    one = claim("c", device_request())
    bad = frozenset({DeviceId(GPU, "n1", "gpu-0")})

    assert chosen(state, Demand((one,), excluded=bad)).allocations[0].results[0].device.name == "gpu-1"
    assert chosen(state, Demand((one,))).allocations[0].results[0].device.name == "gpu-0"


def test_an_earlier_alternative_precedes_a_better_node() -> None:
    """The order of alternatives precedes the strategy's score."""
    state = cluster(
        device_slice("a", "n1", [device("gpu-0", "old")]),
        device_slice("b", "n2", [device(f"gpu-{index}", "new") for index in range(8)]),
        nodes=("n1", "n2"),
    )
    alternatives = [device_request(kind=kind)["exactly"] | {"name": kind} for kind in ("new", "old")]
    one = claim("c", {"name": "r", "firstAvailable": alternatives})

    assert chosen(state, Demand((one,))).allocations[0].results[0].request == "r/new"


@pytest.mark.parametrize(
    ("strategy", "taken"),
    [
        (Strategy.FIRST_FIT, ["gpu-0", "gpu-1"]),
        (Strategy.PACK, ["gpu-1", "gpu-0"]),
        (Strategy.SPREAD, ["gpu-1", "gpu-0"]),
        (Strategy.LEAST_FRAGMENTATION, ["gpu-1", "gpu-0"]),
    ],
)
def test_a_request_leaves_the_device_that_a_later_requests_first_alternative_needs(
    strategy: Strategy, taken: list[str]
) -> None:
    """Either device serves the first request. FirstFit takes the first one, as kube-scheduler does."""
    state = cluster(device_slice("s", "n1", [device("gpu-0", "new"), device("gpu-1", "old")]), nodes=("n1",))
    alternatives = [device_request(kind=kind)["exactly"] | {"name": kind} for kind in ("new", "old")]
    one = claim("c", device_request(kind=""), {"name": "later", "firstAvailable": alternatives})

    results = chosen(state, Demand((one,)), strategy).allocations[0].results

    assert [result.device.name for result in results] == taken


def test_all_claims_of_a_demand_are_allocated_on_one_node_or_refused() -> None:
    """No device is allocated to two of the claims."""
    state = fleet(2, 1)
    pair = (claim("a", device_request()), claim("b", device_request(count=1)))

    found = chosen(state, Demand(pair))

    assert found.node == "n1"
    assert len({result.device for one in found.allocations for result in one.results}) == 2
    assert isinstance(allocate(state, Demand((*pair, claim("c", device_request())))), Refusal)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_constraint_tells_equal_values_of_different_types_apart(strategy: Strategy) -> None:
    """The number 1 and true are equal in Python; as attributes they are not, nor is the text 1."""
    values = [{"int": 1}, {"bool": True}, {"string": "1"}, {"version": "1.0.0"}, {"string": "1.0.0"}]
    rows = [device(f"gpu-{index}", attributes={NUMA: value}) for index, value in enumerate(values)]
    state = cluster(device_slice("n1", "n1", rows))

    def answer(count: int, constraint: str) -> Decision | Refusal:
        wanted = claim("c", device_request(kind="", count=count), constraints=[{constraint: NUMA}])
        return allocate(state, Demand((wanted,)), Terms(strategy))

    assert isinstance(answer(2, "matchAttribute"), Refusal)
    assert isinstance(answer(len(values), "distinctAttribute"), Decision)


def test_shares_of_one_device_get_different_share_ids() -> None:
    """Equal demands get equal share IDs, another seed gives others."""
    state = cluster(
        device_slice(
            "s", "n1", [device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}})]
        )
    )
    half = {"capacity": {"requests": {"memory": "2"}}}
    pair = (claim("a", device_request(**half)), claim("b", device_request(**half)))

    first = chosen(state, Demand(pair, seed="1"))
    ids = [one.results[0].share_id for one in first.allocations]

    assert len(set(ids)) == 2
    assert chosen(state, Demand(pair, seed="1")) == first
    assert chosen(state, Demand(pair, seed="2")).allocations[0].results[0].share_id not in ids


def test_a_selector_error_on_one_node_does_not_prevent_allocation_on_another() -> None:
    """A node on whose devices a selector fails is skipped; without another node the error is reported as broken input."""
    good = device("gpu-0") | {"attributes": {"kind": {"string": "gpu"}, "size": {"int": 3}}}
    state = cluster(
        device_slice("a", "n1", [device("gpu-0")]), device_slice("b", "n2", [good]), nodes=("n1", "n2")
    )
    selectors = [{"cel": {"expression": f"{A}.size > 2"}}]
    demand = Demand((claim("c", device_request(selectors=selectors)),))
    assert chosen(state, demand).node == "n2"

    state.hold("x", [DeviceResult("r", DeviceId(GPU, "n2", "gpu-0"))])
    assert isinstance(allocate(state, demand), Refusal)

    state.drop_slice("b")
    with pytest.raises(
        BrokenInput, match=r"claim ns/c: selector #0 on device gpu.example.com/n1/gpu-0: .*size"
    ):
        allocate(state, demand)


def test_a_claim_for_more_than_32_devices_is_too_much() -> None:
    """The limit is 32 devices per claim."""
    state = fleet(8)
    with pytest.raises(TooMuch, match="exceeds the claim limit of 32"):
        allocate(state, Demand((claim("c", device_request(count=33)),)))


def test_selectors_of_more_characters_than_are_compiled_in_a_moment_are_broken_input() -> None:
    """The API allows a claim thousands of 10,240 characters; what is repeated counts once."""
    state = fleet(8)
    long = [{"cel": {"expression": "1 == 1 && " * 1000 + f"{number} < 9"}} for number in range(4)]
    fits = Demand(
        (claim("c", device_request("r", selectors=long[:3]), device_request("s", selectors=long[:3])),)
    )
    assert chosen(state, fits).node

    exceeds = claim("d", device_request("r"), device_request("s", selectors=[long[3]]))
    with pytest.raises(
        BrokenInput, match=r"claim ns/d, request s: with selector #0 .* 32768 characters"
    ) as caught:
        allocate(state, Demand((*fits.claims, exceeds)))
    assert caught.value.field == "spec.devices.requests[1].exactly.selectors[0]"


def test_claims_with_long_selectors_are_not_remembered_by_thousands() -> None:
    """What was read of them, and what they asked for, would fill a hundred MB and more after they are gone; of usual ones thousands are."""
    state = fleet(8)

    def read(number: int, length: int) -> None:
        text = f"{'1 == 1 && ' * length} {number} < 9"
        one = claim(f"c{number}", device_request("r", selectors=[{"cel": {"expression": text}}]))
        state.queries.of((one,), state.classes, state.features)

    for number in range(600):
        read(number, 3000)
    assert len(state.queries) < 600
    state.queries.clear()
    for number in range(3000):
        read(number, 10)
    assert len(state.queries) == 6000


def test_an_allocation_with_more_than_64_configurations_is_too_much() -> None:
    """The limit is 64 entries per allocation, from class and claim together."""
    entry = {"opaque": {"driver": GPU, "parameters": {}}}
    state = cluster(device_slice("s", "n1", [device("gpu-0")]))
    state.put_class(DeviceClass.from_json({"metadata": {"name": "any"}, "spec": {"config": [entry] * 32}}))
    one = claim("c", device_request(), config=[entry] * 33)

    with pytest.raises(TooMuch, match=r"65 configurations .* exceed the limit of 64"):
        allocate(state, Demand((one,)))


def test_an_exhausted_step_budget_is_the_verdict_budget_and_not_none() -> None:
    """The verdict `budget` differs from `none`, which is proven."""
    state = fleet(8)
    found = allocate(state, Demand((claim("c", device_request(count=8)),)), steps=5)

    assert isinstance(found, Refusal)
    assert found.verdict == "budget"


def test_every_strategy_has_a_scorer_and_a_name_in_policies() -> None:
    """A strategy without a scorer would fail with a KeyError when a policy names it."""
    assert set(STATELESS) | {Strategy.LEAST_FRAGMENTATION} == set(Strategy)
    assert {one.value for one in Strategy} == {one.value for one in PolicyStrategy}


@pytest.mark.parametrize("strategy", list(Strategy))
def test_an_alternative_of_more_devices_than_an_allocation_may_have_is_passed_over(
    strategy: Strategy,
) -> None:
    """The API server refuses more than 32 results: such a claim would be written in vain for ever, its devices held."""
    devices = [
        device(f"gpu-{number}", allowMultipleAllocations=True, capacity=amounts(units=10))
        for number in range(40)
    ]
    state = cluster(device_slice("s", "n1", devices))
    exact = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "capacity": {"requests": {"units": "1"}},
    }
    alternatives = [exact | {"name": f"of-{count}", "count": count} for count in (33, 32)]
    found = chosen(state, Demand((claim("c", {"name": "r", "firstAvailable": alternatives}),)), strategy)
    assert [result.request for result in found.allocations[0].results] == ["r/of-32"] * 32
