"""A driver publishes held devices with other counters: what is taken stays taken."""

from collections.abc import Sequence

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, amounts, chip, claim, cluster, device, device_request, device_slice

WHOLE = DeviceResult("r", DeviceId(GPU, "n1", "whole"))
FOUR_PARTS = Demand((claim("c", device_request(kind="part", count=4)),))


def card(name: str = "chip-0", unit: int = 1, generation: int = 1) -> Sequence[Slice]:
    """Return the slices of a card in four parts. `unit`: what a part takes of the card's only counter."""
    rows = [
        device("whole", "whole", {"units": 4 * unit}, name),
        *(device(f"part-{number}", "part", {"units": unit}, name) for number in range(4)),
    ]
    sets = [{"name": name, "counters": amounts(units=4 * unit)}]
    return (
        device_slice("counters", "n1", count=2, generation=generation, sharedCounters=sets),
        device_slice("devices", "n1", rows, count=2, generation=generation),
    )


def uncut(generation: int = 1) -> Sequence[Slice]:
    """Return the slices of the same card as a driver publishes it that does not cut cards."""
    return (
        device_slice("counters", "n1", count=2, generation=generation),
        device_slice("devices", "n1", [device("whole", "whole")], count=2, generation=generation),
    )


def publish(state: State, slices: Sequence[Slice]) -> None:
    """Let the state learn of slices."""
    for piece in slices:
        state.put_slice(piece)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (card(), card("card-0", generation=2)),
        (card(), card(unit=100, generation=2)),
        (uncut(), card(generation=2)),
    ],
    ids=["under another name", "in another unit", "for the first time"],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_held_device_consumes_the_counters_that_its_driver_publishes_now(
    before: Sequence[Slice], after: Sequence[Slice], *, newest_first: bool
) -> None:
    """An upgrade of a driver under running pods must not let others have the parts of their cards."""
    state = cluster(*before)
    state.hold("a", [WHOLE])
    publish(state, after[::-1] if newest_first else after)

    one_part = Demand((claim("c", device_request(kind="part")),))
    assert isinstance(allocate(state, one_part), Refusal)

    state.release("a")
    assert isinstance(allocate(state, FOUR_PARTS), Decision)


def test_an_obsolete_slice_adds_nothing_to_what_a_held_device_consumes() -> None:
    """After a start slices arrive in any order, and drivers delete those of former generations late."""
    state = cluster(*card(generation=2))
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "n1", "part-0"))])
    old = [device("part-0", "part", {"units": 4}, "chip-0")]
    state.put_slice(device_slice("old", "n1", old, generation=1))

    three_parts = Demand((claim("c", device_request(kind="part", count=3)),))
    assert isinstance(allocate(state, three_parts), Decision)


@pytest.mark.parametrize("first", ["n1", "n2"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_device_in_use_takes_the_counters_that_a_node_with_an_older_generation_goes_by(
    first: str,
    seen: bool,  # noqa: FBT001
) -> None:
    """A driver publishes a pool of several nodes anew, beginning elsewhere, while the operator starts: a part of a card in use was given to a second claim."""
    sets = [{"name": "chip-0", "counters": amounts(units=4)}]
    older = [
        device_slice("c", "n1", count=2, pool="fabric", sharedCounters=sets),
        device_slice("d", "n1", chip(), count=2, pool="fabric"),
    ]
    newer = device_slice("e", "n2", [device("chip-0-whole", "whole")], pool="fabric", generation=2)
    slices = [*older, newer] if first == "n1" else [newer, *older]
    state = cluster(*slices, nodes=("n1", "n2"))
    if seen:
        state.settle()
    state.hold("a", [DeviceResult("r", DeviceId(GPU, "fabric", "chip-0-whole"))])
    demand = Demand((claim("c", device_request(kind="part")),))
    assert isinstance(allocate(state, demand), Refusal)
    state.release("a")
    assert isinstance(allocate(state, demand), Decision)
