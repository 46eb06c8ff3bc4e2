"""Which place is chosen when several would do."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput, TooMuch
from tests.allocator.builders import GPU, A, chips, claim, cluster, device, piece, want


def fleet(*free: int) -> State:
    """Return nodes n1, n2, ... of eight devices with so many free."""
    nodes = [f"n{index + 1}" for index in range(len(free))]
    state = cluster(
        *(piece(name, name, [device(f"gpu-{index}") for index in range(8)]) for name in nodes), nodes=nodes
    )
    for name, count in zip(nodes, free, strict=True):
        state.hold(
            name, [DeviceResult("r", DeviceId(GPU, name, f"gpu-{index}")) for index in range(8 - count)]
        )
    return state


def chosen(state: State, demand: Demand, strategy: Strategy = Strategy.PACK, **more: object) -> Decision:
    """Return the decision; there must be one."""
    found = allocate(state, demand, Terms(strategy), **more)  # type: ignore[arg-type]
    assert isinstance(found, Decision), found
    return found


@pytest.mark.parametrize(
    ("strategy", "node"),
    [(Strategy.FIRST_FIT, "n1"), (Strategy.PACK, "n2"), (Strategy.SPREAD, "n3")],
)
def test_each_strategy_takes_its_node(strategy: Strategy, node: str) -> None:
    """The first that fits, the fullest that fits, the emptiest."""
    state = fleet(5, 3, 8, 1)

    assert chosen(state, Demand((claim("c", want(count=2)),)), strategy=strategy).node == node


def test_only_the_nodes_of_the_demand_are_candidates() -> None:
    """Unknown names among them do no harm."""
    state = fleet(5, 3, 8)

    assert chosen(state, Demand((claim("c", want()),), nodes=frozenset({"n1", "n3", "x"}))).node == "n1"
    assert isinstance(allocate(state, Demand((claim("c", want()),), nodes=frozenset())), Refusal)


def test_parts_go_where_a_chip_is_broken_already() -> None:
    """Pack keeps whole chips whole, on the node and among nodes; Spread takes a fresh one."""
    state = cluster(*chips("n1", 2), *chips("n2", 2), nodes=("n1", "n2"))
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n2", "chip-1-part-0"))])
    demand = Demand((claim("c", want(kind="part", count=2)),))

    packed = chosen(state, demand)
    spread = chosen(state, demand, strategy=Strategy.SPREAD)

    assert [result.device.name for result in packed.allocations[0].results] == [
        "chip-1-part-1",
        "chip-1-part-2",
    ]
    assert packed.node == "n2"
    assert {result.device.name[:6] for result in spread.allocations[0].results} == {"chip-0", "chip-1"}
    assert spread.node == "n1"


def test_a_preferred_device_wins_over_the_strategy() -> None:
    """A live idle partition of the same kind costs nothing, wherever it is."""
    state = cluster(*chips("n1", 2), *chips("n2", 2), nodes=("n1", "n2"))
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n2", "chip-1-part-0"))])
    idle = DeviceId(GPU, "n1", "chip-1-part-3")

    found = chosen(state, Demand((claim("c", want(kind="part")),)), prefer={idle: 1})

    assert found.allocations[0].results[0].device == idle
    assert chosen(state, Demand((claim("c", want(kind="part")),))).node == "n2"


def test_an_excluded_device_is_not_chosen() -> None:
    """Nor does excluding it for one demand exclude it for the next."""
    state = cluster(piece("s", "n1", [device("gpu-0"), device("gpu-1")]))
    one = claim("c", want())
    bad = frozenset({DeviceId(GPU, "n1", "gpu-0")})

    assert chosen(state, Demand((one,), excluded=bad)).allocations[0].results[0].device.name == "gpu-1"
    assert chosen(state, Demand((one,))).allocations[0].results[0].device.name == "gpu-0"


def test_an_earlier_alternative_wins_over_a_better_node() -> None:
    """Order of alternatives is the user's word, the score is ours."""
    state = cluster(
        piece("a", "n1", [device("gpu-0", "old")]),
        piece("b", "n2", [device(f"gpu-{index}", "new") for index in range(8)]),
        nodes=("n1", "n2"),
    )
    ways = [want(kind=kind)["exactly"] | {"name": kind} for kind in ("new", "old")]
    one = claim("c", {"name": "r", "firstAvailable": ways})

    assert chosen(state, Demand((one,))).allocations[0].results[0].request == "r/new"


def test_claims_of_one_demand_go_to_one_node_or_nowhere() -> None:
    """Neither shares a device with the other."""
    state = fleet(2, 1)
    pair = (claim("a", want()), claim("b", want(count=1)))

    found = chosen(state, Demand(pair))

    assert found.node == "n1"
    assert len({result.device for one in found.allocations for result in one.results}) == 2
    assert isinstance(allocate(state, Demand((*pair, claim("c", want())))), Refusal)


def test_shares_of_one_device_have_ids_of_their_own() -> None:
    """The same demand gives the same IDs, another seed others."""
    state = cluster(
        piece(
            "s", "n1", [device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "4"}})]
        )
    )
    half = {"capacity": {"requests": {"memory": "2"}}}
    pair = (claim("a", want(**half)), claim("b", want(**half)))

    first = chosen(state, Demand(pair, seed="1"))
    ids = [one.results[0].share_id for one in first.allocations]

    assert len(set(ids)) == 2
    assert chosen(state, Demand(pair, seed="1")) == first
    assert chosen(state, Demand(pair, seed="2")).allocations[0].results[0].share_id not in ids


def test_errors_on_one_node_do_not_keep_a_claim_from_another() -> None:
    """A selector that fails on a node's devices puts that node aside; without another node it is the user's to mend."""
    good = device("gpu-0") | {"attributes": {"kind": {"string": "gpu"}, "size": {"int": 3}}}
    state = cluster(piece("a", "n1", [device("gpu-0")]), piece("b", "n2", [good]), nodes=("n1", "n2"))
    selectors = [{"cel": {"expression": f"{A}.size > 2"}}]
    demand = Demand((claim("c", want(selectors=selectors)),))
    assert chosen(state, demand).node == "n2"

    state.hold("x", [DeviceResult("r", DeviceId(GPU, "n2", "gpu-0"))])
    assert isinstance(allocate(state, demand), Refusal)

    state.drop_slice("b")
    with pytest.raises(
        BrokenInput, match=r"claim ns/c: selector #0 on device gpu.example.com/n1/gpu-0: .*size"
    ):
        allocate(state, demand)


def test_more_than_the_api_takes_is_refused_for_good() -> None:
    """32 devices per claim."""
    state = fleet(8)
    with pytest.raises(TooMuch, match="exceeds the claim limit of 32"):
        allocate(state, Demand((claim("c", want(count=33)),)))


def test_more_configurations_than_the_api_takes_are_refused_for_good() -> None:
    """64 entries per allocation, from class and claim together."""
    entry = {"opaque": {"driver": GPU, "parameters": {}}}
    state = cluster(piece("s", "n1", [device("gpu-0")]))
    state.put_class(DeviceClass.from_json({"metadata": {"name": "any"}, "spec": {"config": [entry] * 32}}))
    one = claim("c", want(), config=[entry] * 33)

    with pytest.raises(TooMuch, match=r"65 configurations .* exceed the limit of 64"):
        allocate(state, Demand((one,)))


def test_the_step_budget_ends_a_search_with_an_honest_verdict() -> None:
    """Not found within budget is not the same as proven impossible."""
    state = fleet(8)
    found = allocate(state, Demand((claim("c", want(count=8)),)), steps=5)

    assert isinstance(found, Refusal)
    assert found.verdict == "budget"
