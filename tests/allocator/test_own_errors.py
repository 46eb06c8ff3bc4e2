"""A selector that fails on a node after a long search: the refusal says so, also where a second search of the node has fewer steps."""

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.partial import PartialSolution
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, A, Raw, claim, cluster, device, device_request, device_slice
from tests.steps import Steps

VALUES = 5


def node(name: str, alike: int) -> Slice:
    """Return a device that serves the first request, one on which it fails, and so many with each of five values."""
    rest = [
        device(f"d{number}", attributes={"rest": {"bool": True}, "p": {"int": number % VALUES}})
        for number in range(alike * VALUES)
    ]
    return device_slice(name, name, [device("a", "first"), device("b", attributes={}), *rest])


def demand() -> Demand:
    """Return a demand whose first request fails on the second device, after all that was tried with the first one."""
    rest: Raw = {"selectors": [{"cel": {"expression": f"{A}.?rest.orValue(false)"}}]}
    names = [f"r{number}" for number in range(VALUES + 1)]
    constraint = {"requests": names, "distinctAttribute": f"{GPU}/p"}
    others = [device_request(name, **rest) for name in names]
    return Demand((claim("c", device_request("one", "first"), *others, constraints=[constraint]),))


def test_an_error_that_a_second_search_does_not_reach_is_in_the_answer() -> None:
    """The steps that others have used up were missing, and the claim met a defect at each pass, of which its owner was told nothing."""
    state = cluster(node("n1", 2), node("n2", 4), nodes=["n2", "n1"])
    answer = allocate(state, demand())
    assert isinstance(answer, Refusal)
    assert answer.verdict == "budget"
    [text] = [group.message for group in answer.explanation.groups if group.kind == "error"]
    assert f"selector #0 on device {GPU}/n1/b" in text


def test_nodes_on_which_it_fails_are_not_searched_one_by_one_in_addition() -> None:
    """Those in the same state were, for the name of the device in the text: seconds, in one step."""
    names = [f"n{number:02d}" for number in range(20)]
    other = device_slice("z", "z", [device("a", "other")])
    state = cluster(*[node(name, 2) for name in names], other, nodes=[*names, "z"])
    assert decide(state, demand()) is None
    with Steps(only=PartialSolution.take) as tried:
        answer = allocate(state, demand())
    assert isinstance(answer, Refusal)
    assert {group.kind for group in answer.explanation.groups} >= {"error"}
    assert tried.count < 3_000
