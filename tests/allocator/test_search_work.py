"""What a search does for each device that it tries, counted."""

import pytest

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.closeness.distances import NodeDistances
from apportion.allocator.closeness.ladder import DEFAULT, Ladder
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.partial import PartialSolution
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from apportion.dra.slice import Slice
from tests.allocator.builders import amounts, claim, cluster, device, device_request, device_slice
from tests.allocator.hardsearches import distinct_claim, hard_node
from tests.steps import Steps, steps

TRIED = 1_000


def calls_for_each_device(node: Slice, one: Claim) -> float:
    """Return how many functions are called for each device that is tried, of a search that is given up."""
    demand = Demand((one,))
    state = cluster(node)
    # What is found out once counts for no step.
    allocate(state, demand, steps=1)
    with Steps(only=PartialSolution.take) as tried:
        answer = allocate(state, demand, steps=TRIED)
    assert isinstance(answer, Refusal)
    assert answer.verdict == "budget"
    return steps(lambda: allocate(state, demand, steps=TRIED)) / tried.count


def test_requests_that_are_equal_are_counted_as_one() -> None:
    """Each device that was tried had them all counted one by one: a second for one claim of 24 devices on one node."""
    assert calls_for_each_device(hard_node("n1", 1, 112), distinct_claim(24)) < 200


CARDS = 8


def shared_cards() -> State:
    """Return a node of cards of which each may have 800 shares."""
    cards = [
        device(f"gpu-{n}", allowMultipleAllocations=True, capacity=amounts(memory=800)) for n in range(CARDS)
    ]
    return cluster(device_slice("s", "n1", cards))


def hundreds_of_shares(claims: int) -> Demand:
    """Return claims for 32 shares each."""
    shares = [device_request(f"r{n}", capacity={"requests": {"memory": "1"}}) for n in range(32)]
    return Demand(tuple([claim(f"c{number}", *shares) for number in range(claims)]))


@pytest.mark.parametrize("ladder", [None, DEFAULT], ids=["no ladder", "ladder"])
def test_a_pod_may_ask_for_many_hundreds_of_shares(ladder: Ladder | None) -> None:
    """Their search needed two calls within each other for each of them, more than the interpreter allows, and a ladder more steps than a search has."""
    with Steps() as counted:
        found = decide(shared_cards(), hundreds_of_shares(20), Terms(ladder=ladder))
    assert found is not None
    assert [len(each.results) for each in found.allocations] == [32] * 20
    assert counted.count < 2_000_000


def test_a_share_is_compared_once_with_each_card_that_is_chosen() -> None:
    """Under a ladder it was compared with each share: 960 of them were half a million comparisons in one piece."""
    with Steps(only=NodeDistances.level) as compared:
        found = decide(shared_cards(), hundreds_of_shares(30), Terms(ladder=DEFAULT))
    assert found is not None
    assert compared.count < 4 * CARDS * 960
