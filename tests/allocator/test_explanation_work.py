"""What the explanation of a refusal does, counted: it is one step that nobody interrupts."""

import pytest

from apportion.allocator.allocate import allocate, catching_up, decide
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from tests.allocator.builders import (
    GPU,
    A,
    Raw,
    amounts,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
)
from tests.allocator.hardsearches import distinct_claim, hard_node
from tests.steps import steps

NODES = 12
MOST_CALLS = 150_000
"""Some hundredths of a second."""


def unlike_nodes(nodes: int = NODES, devices: int = 32) -> State:
    """Return nodes of devices to share, with another amount of memory on each node."""
    names = [f"n{number:02d}" for number in range(nodes)]
    slices = [
        device_slice(
            name,
            name,
            [
                device(f"d{index}", allowMultipleAllocations=True, capacity=amounts(memory=1000 + number))
                for index in range(devices)
            ],
        )
        for number, name in enumerate(names)
    ]
    return cluster(*slices, nodes=names)


def many_requests(requests: int, alternatives: int, *, shares: bool) -> Claim:
    """Return a claim of requests that all differ, and one that no node serves."""

    def wanted(name: str, number: int, kind: str = "gpu") -> Raw:
        expression = f'{A}.kind == "{kind}" && {number} >= 0'
        capacity = {"capacity": {"requests": {"memory": str(number + 1)}}} if shares else {}
        return {
            "name": name,
            "deviceClassName": "any",
            "selectors": [{"cel": {"expression": expression}}],
            **capacity,
        }

    rows: list[Raw] = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                wanted(f"a{each}", alternatives * number + each) for each in range(alternatives)
            ],
        }
        for number in range(requests)
    ]
    return claim(
        "c", *rows, {"name": "none", "firstAvailable": [wanted(f"a{n}", n, "none") for n in range(4)]}
    )


@pytest.mark.slow
@pytest.mark.parametrize("shares", [False, True], ids=["devices", "shares"])
def test_a_claim_of_many_requests_is_explained_as_fast_as_one_of_few(*, shares: bool) -> None:
    """All that each of its alternatives would lack was found out on each of 128 nodes: seconds for 31 requests of eight alternatives."""
    state, demand = unlike_nodes(), Demand((many_requests(31, 8, shares=shares),))
    assert decide(state, demand) is None
    found: list[object] = []
    assert steps(lambda: found.append(allocate(state, demand))) < MOST_CALLS
    [answer] = found
    assert isinstance(answer, Refusal)
    assert answer.explanation.groups[0].request is not None
    assert answer.explanation.groups[0].request.request.startswith("none/")


def left_out(number: int) -> tuple[Slice, Slice, DeviceId]:
    """Return a node that has one device of a kind, and others that it takes long to choose among, and the id of the one."""
    name = f"n{number}"
    one = device_slice(f"{name}-one", name, [device("one", "first")], pool=f"{name}-one")
    return hard_node(name, 100 + number), one, DeviceId(GPU, f"{name}-one", "one")


@pytest.mark.slow
def test_nodes_without_a_device_that_is_left_out_are_not_searched_with_it_for_long() -> None:
    """Whether it would serve was searched with all steps: up to half a second in the step of the refusal."""
    rows = [left_out(number) for number in range(8)]
    state = cluster(
        *[piece for row in rows for piece in row[:2]], nodes=[f"n{number}" for number in range(8)]
    )
    selector = {"cel": {"expression": f'{A}.?kind.orValue("") == "first"'}}
    one = claim("one", device_request("one", "", selectors=[selector]))
    demand = Demand((one, distinct_claim(14)), excluded=frozenset([row[2] for row in rows]))
    for _ in catching_up(state, demand, Terms()):
        pass
    assert decide(state, demand) is None
    assert steps(lambda: allocate(state, demand)) < 2 * MOST_CALLS
