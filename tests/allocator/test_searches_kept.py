"""What a search has found is kept until the decision also where it ends with an error, or where a demand singles out devices."""

from dataclasses import replace

import pytest

from apportion.allocator.allocate import allocate, catching_up, decide
from apportion.allocator.demand import Demand
from apportion.allocator.search.partial import PartialSolution
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput
from tests.allocator.builders import GPU, A, claim, cluster, device, device_request, device_slice
from tests.allocator.hardsearches import distinct_claim, hard_node
from tests.allocator.test_own_errors import VALUES
from tests.allocator.test_own_errors import demand as failing_demand
from tests.steps import Steps

pytestmark = pytest.mark.slow

NAMES = ["n1", "n2", "n3", "n4"]
_OTHER = [{"cel": {"expression": f'{A}.?kind.orValue("") == "other"'}}]
EVERY_OTHER = claim("all", device_request("all", "", allocationMode="All", selectors=_OTHER))


def failing_nodes() -> State:
    """Return unlike nodes, on each of which the first request fails on device `b-NAME` after a long search."""
    rows = {
        name: [
            device("a", "first"),
            device(f"b-{name}", attributes={}),
            *[
                device(
                    f"d{number}",
                    attributes={
                        "rest": {"bool": True},
                        "p": {"int": number % VALUES},
                        "node": {"int": position},
                    },
                )
                for number in range(2 * VALUES)
            ],
        ]
        for position, name in enumerate(NAMES)
    }
    return cluster(*[device_slice(name, name, row) for name, row in rows.items()], nodes=NAMES)


def tried_in_decision(state: State, demand: Demand, terms: Terms, prefer: dict[DeviceId, int]) -> int:
    """Return how many devices a decision tries that comes after the searches for it."""
    for _ in catching_up(state, demand, terms, prefer=prefer):
        pass
    with Steps(only=PartialSolution.take) as tried:
        decide(state, demand, terms, prefer=prefer)
    return tried.count


@pytest.mark.parametrize(
    ("single_out", "strategy"),
    [
        ((), Strategy.FIRST_FIT),
        ((), Strategy.PACK),
        (("d9",), Strategy.LEAST_FRAGMENTATION),
        (("d9",), Strategy.SPREAD),
    ],
)
def test_a_decision_searches_no_node_once_more_on_which_a_selector_fails(
    single_out: tuple[str, ...], strategy: Strategy
) -> None:
    """It searched all of them, in one step, and so did each later one; those behind the first error were not searched before."""
    state = failing_nodes()
    excluded = frozenset(DeviceId(GPU, name, each) for name in NAMES for each in single_out)
    demand = replace(failing_demand(), nodes=frozenset(NAMES), excluded=excluded)
    assert tried_in_decision(state, demand, Terms(strategy), {}) == 0


@pytest.mark.parametrize(
    ("prefers", "strategy"),
    [
        (True, Strategy.LEAST_FRAGMENTATION),
        (True, Strategy.SPREAD),
        (False, Strategy.FIRST_FIT),
        (False, Strategy.PACK),
    ],
)
def test_a_decision_searches_no_node_once_more_for_a_claim_with_all_devices_of_a_kind(
    prefers: bool,  # noqa: FBT001
    strategy: Strategy,
) -> None:
    """Where devices are singled out, all nodes were searched in one step: of such a claim outcomes are kept node by node."""
    state = cluster(
        *(hard_node(name, 100 + number, 32, alone=1) for number, name in enumerate(NAMES, 1)), nodes=NAMES
    )
    demand = Demand((EVERY_OTHER, distinct_claim(14)))
    single_out = dict.fromkeys([DeviceId(GPU, name, "d9") for name in NAMES], 1)
    prefer = single_out if prefers else {}
    demand = demand if prefers else replace(demand, excluded=frozenset(single_out))
    assert tried_in_decision(state, demand, Terms(strategy), prefer) == 0
    found = decide(state, demand, Terms(strategy), prefer=prefer)
    assert found is not None
    state.hold("other", [result for each in found.allocations for result in each.results])
    second = decide(state, demand, Terms(strategy), prefer=prefer)
    assert second is None or second.node != found.node


def test_an_error_that_was_kept_names_the_node_s_own_device() -> None:
    """Nodes of one state share it, and each has names of its own."""
    rows = {name: [device("a", "first"), device(f"b-{name}", attributes={})] for name in ("n1", "n2")}
    state = cluster(*[device_slice(name, name, row) for name, row in rows.items()], nodes=["n1", "n2"])
    for name in ("n1", "n2", "n1"):
        two = Demand((claim("c", device_request("r", "first", 2)),), nodes=frozenset([name]))
        with pytest.raises(BrokenInput, match=f"{GPU}/{name}/b-{name}:"):
            allocate(state, two)
