"""Slices with `skipNodeOperations` (KEP-5945, alpha in 1.37): their devices are for nodes whose kubelet declares the feature.

Upstream: `allocateDevice` of allocator_experimental.go and `Filter` of kube-scheduler's dynamicresources.go. Where the API
server's gate is off, it drops the field of new slices, so the operator needs no switch.
"""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import render
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.dra.node import OPTIONAL_NODE_OPERATIONS
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput
from tests.allocator.builders import A, Raw, claim, cluster, device, device_request, device_slice

ALL = ["*"]
ASKED = Demand((claim("c", device_request()),))


def published(node: str, *rows: Raw, name: str = "s") -> Slice:
    """Return a slice of a pool of its own whose devices nobody prepares."""
    return device_slice(f"{node}-{name}", node, rows, pool=f"{node}-{name}", skipNodeOperations=ALL)


@pytest.mark.parametrize("strategy", Strategy)
def test_only_a_node_that_declares_the_feature_gives_such_a_device(strategy: Strategy) -> None:
    """The nodes differ in nothing else, and the result has the field: kubelet reads it there."""
    state = cluster(published("n1", device("a")), published("n2", device("a")), nodes=("n1", "n2"))
    assert isinstance(allocate(state, ASKED, Terms(strategy)), Refusal)

    state.put_node("n2", {}, [OPTIONAL_NODE_OPERATIONS])
    answer = allocate(state, ASKED, Terms(strategy))
    assert isinstance(answer, Decision)
    assert answer.node == "n2"
    assert [each.to_json()["skipNodeOperations"] for each in answer.allocations[0].results] == [ALL]

    state.put_node("n2", {})
    assert isinstance(allocate(state, ASKED, Terms(strategy)), Refusal)


def test_a_device_of_another_slice_has_no_such_field_in_its_result() -> None:
    state = cluster(published("n1", device("a", "other")), device_slice("plain", "n1", [device("b")]))
    answer = allocate(state, ASKED)
    assert isinstance(answer, Decision)
    assert "skipNodeOperations" not in answer.allocations[0].results[0].to_json()


@pytest.mark.parametrize(
    ("more", "served"),
    [({"allocationMode": "All", "count": 0}, False), ({"count": 2}, False), ({"adminAccess": True}, True)],
)
def test_devices_that_are_not_allocated_there_match_nevertheless(more: Raw, *, served: bool) -> None:
    """So a request for all devices asks for them, too."""
    state = cluster(published("n1", device("a")), device_slice("plain", "n1", [device("b")]))
    assert isinstance(allocate(state, Demand((claim("c", device_request(**more)),))), Decision) == served


def test_a_selector_that_fails_on_such_a_device_is_an_error() -> None:
    """Upstream evaluates it before it looks at the slice."""
    request = device_request(selectors=[{"cel": {"expression": f"{A}.usable"}}])
    state = cluster(published("n1", device("a")))
    with pytest.raises(BrokenInput, match="usable"):
        allocate(state, Demand((claim("c", request),)))


@pytest.mark.parametrize("beside", [(), (device("b", "other"),)])
def test_the_refusal_names_field_and_feature(beside: tuple[Raw, ...]) -> None:
    """Whether or not the node has other devices."""
    state = cluster(published("n1", device("a")), device_slice("plain", "n1", beside))
    answer = allocate(state, ASKED)
    assert isinstance(answer, Refusal)
    reason = f"skipNodeOperations, and status.declaredFeatures of the node has no {OPTIONAL_NODE_OPERATIONS}"
    assert render(answer.explanation).count(reason) == 2
