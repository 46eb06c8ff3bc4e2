"""A node view follows shares one by one, and shows what it would show if it were computed from all holdings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.node.occupancy import NodeOccupancy
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.quantity import Quantity
from tests.allocator.builders import GPU, Raw, amounts, cluster, device, device_slice

DEVICES = 4
SHAREABLE = 3

RESULTS = st.lists(
    st.tuples(st.integers(0, DEVICES), st.sampled_from(["whole", "share", "large share", "share of old"])),
    min_size=1,
    max_size=3,
)
"""Devices of one key, the last of which nobody publishes, and what it has of each."""

CHANGES = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | RESULTS), max_size=20)
"""A key, and what it holds from now on; None: nothing."""


def published() -> list[Raw]:
    """Return devices without counters, all but one of which several claims may share."""
    return [
        device(f"d{index}", capacity=amounts(units=10), allowMultipleAllocations=index < SHAREABLE)
        for index in range(DEVICES)
    ]


def result(number: int, index: int, part: str) -> DeviceResult:
    """Return what an allocation has of a device."""
    one = DeviceId(GPU, "n1", f"d{index}")
    if part == "whole":
        return DeviceResult("r", one)
    consumed = {
        "old" if part == "share of old" else "units": Quantity.whole(7 if part == "large share" else 2)
    }
    return DeviceResult("r", one, share_id=f"share-{number}", consumed=consumed)


def shown(view: NodeOccupancy) -> tuple[object, ...]:
    """Return everything that a view shows of holdings."""
    return (
        view.exclusive,
        view.charged,
        view.fit,
        view.open,
        dict(view.used),
        view.holdings,
        dict(view.differing),
    )


@pytest.mark.slow
@given(changes=CHANGES)
def test_a_view_that_followed_every_change_equals_a_new_one(
    changes: list[tuple[str, list[tuple[int, str]] | None]],
) -> None:
    """Shares and whole devices come and go, several of one device for one key, too, and a device that is not there."""
    pieces = (device_slice("n1", "n1", published()),)
    state = cluster(*pieces)
    held: dict[str, list[DeviceResult]] = {}
    view = state.view("n1")
    for number, (key, wanted) in enumerate(changes):
        before = view.used, shown(view)
        held.pop(key, None)
        if wanted is None:
            state.release(key)
        else:
            held[key] = [result(number, index, part) for index, part in wanted]
            state.hold(key, held[key])
        fresh = cluster(*pieces)
        for other, results in held.items():
            fresh.hold(other, results)
        # Not `state.view`, which would compute anew what the view did not follow.
        assert shown(view) == shown(fresh.view("n1")), number
        # Readers tell by the object whether shares changed.
        assert view.used is not before[0] or shown(view)[4] == before[1][4]
