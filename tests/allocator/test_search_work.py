"""What a search does for each device that it tries, counted."""

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.partial import PartialSolution
from apportion.dra.claim import Claim
from apportion.dra.slice import Slice
from tests.allocator.builders import cluster
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
