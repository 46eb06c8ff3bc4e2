"""A search does not depend on which of a claim's requests is written first: the one with the least choice may be the last."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import DEFAULT, Ladder
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from tests.allocator.builders import Raw, amounts, claim, cluster, device, device_request, device_slice

MEMORY = 80
EIGHTHS = [device_request(f"r{n}", "", capacity={"requests": {"memory": "10"}}) for n in range(12)]


BOTH = [Strategy.PACK, Strategy.LEAST_FRAGMENTATION]
"""Which count placements, and which prices them: the order of the requests has nothing to do with it."""


def shared_cards() -> State:
    """Return a node with two large cards, which come first and last, and six small ones; all may be shared."""
    kinds = ["large", *["small"] * 6, "large"]
    cards = [
        device(f"gpu-{n}", kind, allowMultipleAllocations=True, capacity=amounts(memory=MEMORY))
        for n, kind in enumerate(kinds)
    ]
    return cluster(device_slice("s", "n1", cards))


def whole(name: str, kind: str) -> Raw:
    """Return a request for all memory of a card of this kind."""
    return device_request(name, kind, capacity={"requests": {"memory": str(MEMORY)}})


def after_eighths(*requests: Raw) -> Claim:
    """Return a claim for twelve eighths of any card, and then for these."""
    return claim("c", *EIGHTHS, *requests)


@pytest.mark.parametrize("ladder", [None, DEFAULT], ids=["no ladder", "ladder"])
@pytest.mark.parametrize("strategy", Strategy)
def test_a_request_with_little_choice_is_served_though_it_is_the_last(
    strategy: Strategy, ladder: Ladder | None
) -> None:
    """The requests before it took some of each large card, in one way after the other, until the steps were used up: the pod waited for ever."""
    one = after_eighths(whole("first", "large"), whole("second", "large"))
    found = allocate(shared_cards(), Demand((one,)), Terms(strategy, ladder))
    assert isinstance(found, Decision)
    [allocation] = found.allocations
    assert [result.request for result in allocation.results] == [f"r{n}" for n in range(12)] + [
        "first",
        "second",
    ]
    assert {result.device.name for result in allocation.results[12:]} == {"gpu-0", "gpu-7"}


@pytest.mark.parametrize("strategy", BOTH)
def test_requests_that_cannot_be_served_are_known_as_such_though_they_are_the_last(
    strategy: Strategy,
) -> None:
    """Three whole cards of which there are two: all steps were used up, and nothing was proven."""
    one = after_eighths(*(whole(f"w{n}", "large") for n in range(3)))
    found = allocate(shared_cards(), Demand((one,)), Terms(strategy))
    assert isinstance(found, Refusal)
    assert found.verdict == "none"


@pytest.mark.parametrize("strategy", BOTH)
def test_the_first_request_has_its_earliest_alternative_though_it_is_searched_last(
    strategy: Strategy,
) -> None:
    """A request with alternatives has more choice than others; the order of its alternatives holds all the same."""
    kinds = {"wanted": "small", "other": ""}
    first: Raw = {
        "name": "choice",
        "firstAvailable": [
            device_request(kind=kind, capacity={"requests": {"memory": "10"}})["exactly"] | {"name": name}
            for name, kind in kinds.items()
        ],
    }
    rows = [first, *EIGHTHS, whole("first", "large"), whole("second", "large")]
    found = allocate(shared_cards(), Demand((claim("c", *rows),)), Terms(strategy))
    assert isinstance(found, Decision)
    assert found.allocations[0].results[0].request == "choice/wanted"


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize(
    "beside",
    [{"adminAccess": True, "count": 1}, {"allocationMode": "All"}],
    ids=["admin access", "all devices"],
)
def test_requests_with_little_choice_are_served_beside_a_monitor(strategy: Strategy, beside: Raw) -> None:
    """Such a claim was searched in its own order alone, and its pod waited for ever."""
    state = shared_cards()
    state.put_slice(device_slice("m", "n1", [device("monitor", "monitor")], pool="monitors"))
    rows = [*EIGHTHS, device_request("m", "monitor", **beside)]
    rows += [whole("first", "large"), whole("second", "large")]
    found = allocate(state, Demand((claim("c", *rows),)), Terms(strategy))
    assert isinstance(found, Decision)
    assert {result.device.name for result in found.allocations[0].results[13:]} == {"gpu-0", "gpu-7"}


@pytest.mark.parametrize("strategy", BOTH)
def test_a_device_with_admin_access_by_an_earlier_claim_stays_barred_for_later_ones(
    strategy: Strategy,
) -> None:
    """As upstream has it; a later claim with admin access may have a device that an earlier one has."""
    state = shared_cards()
    state.put_slice(device_slice("m", "n1", [device("monitor", "monitor")], pool="monitors"))
    watching = claim("w", *EIGHTHS, device_request("m", "monitor", adminAccess=True))
    using = claim("u", device_request("m", "monitor"), whole("first", "large"), whole("second", "large"))
    refused = allocate(state, Demand((watching, using)), Terms(strategy))
    assert isinstance(refused, Refusal)
    assert isinstance(allocate(state, Demand((using, watching)), Terms(strategy)), Decision)
