"""Attributes that claims compare: those that every class distinguishes anyway, or that nobody has, make no class anew."""

from apportion.allocator.allocate import Demand, allocate
from apportion.allocator.decision import Refusal
from apportion.allocator.equivalence.nodeclasses import MOST_COMPARED, columns_of
from tests.allocator.builders import GPU, claim, cluster, device, device_request, device_slice
from tests.steps import Steps

MOST_CONSTRAINTS = 32
"""Of one claim, as the API has it."""


def test_names_that_no_device_has_are_not_compared() -> None:
    """All nodes would be classified anew whenever a tenant has made up a few hundred."""
    nodes = ["n1", "n2"]
    state = cluster(*(device_slice(name, name, [device("gpu-0")]) for name in nodes), nodes=nodes)
    state.settle()
    with Steps(only=columns_of) as classified:
        for number in range(MOST_COMPARED // MOST_CONSTRAINTS + 2):
            names = [f"{GPU}/made-up-{number}-{index}" for index in range(MOST_CONSTRAINTS)]
            constraints = [{"requests": ["r"], "matchAttribute": name} for name in names]
            asked = claim("c", device_request(count=1), constraints=constraints)
            assert isinstance(allocate(state, Demand((asked,))), Refusal)
    assert classified.count == 0
