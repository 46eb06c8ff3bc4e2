"""What devices take of counters, as an allocation says it: entries that the API server takes, and the same amounts again."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.consumedcounters import WRITER, amounts_in, written
from apportion.dra.device import DeviceId
from tests.allocator.builders import GPU, chip, chips, claim, cluster, device_request, device_slice

WHOLE = DeviceId(GPU, "n1", "chip-0-whole")
PART = Demand((claim("c", device_request(kind="part")),))
LABEL = st.integers(0, 10**31 - 1).map("n{}".format)
AMOUNTS = st.dictionaries(st.tuples(LABEL, LABEL), st.integers(0, 2**63 * 10**9 - 1), min_size=1, max_size=64)
ROWS = st.dictionaries(
    st.builds(DeviceId, st.just("d.example.com"), LABEL, LABEL), AMOUNTS, min_size=1, max_size=32
)


@given(rows=ROWS)
def test_amounts_are_read_as_they_were_written(rows: dict[DeviceId, dict[tuple[str, str], int]]) -> None:
    """No entry has more than the 10 KiB of parameters that the API server takes."""
    entries = written(rows.items(), 64)
    assert all(len(orjson.dumps(opaque["parameters"])) <= 10 * 1024 for opaque in entries)
    assert dict(row for opaque in entries for row in amounts_in(opaque)) == rows


def test_a_record_that_needs_more_entries_than_there_is_room_for_is_left_out() -> None:
    """An allocation has 64 entries at most, and those of claim and classes come first."""
    rows = [(WHOLE, {("chip-0", "units"): 4})]
    assert len(written(rows, 1)) == 1
    assert written(rows, 0) == ()


@pytest.mark.parametrize("source", ["FromClass", "FromClaim"])
def test_a_device_that_is_in_no_slice_takes_what_its_allocation_says(source: str) -> None:
    """kubernetes/kubernetes #140802: withdrawn before anybody read it; only what a class may say counts."""
    entries = [
        {"source": source, "opaque": opaque}
        for opaque in written([(WHOLE, {("chip-0", "units"): 4 * 10**9})], 64)
    ]
    state = cluster(*chips("n1"))
    state.put_slice(device_slice("n1-devices", "n1", chip()[1:], count=2))
    result = {"request": "r", "driver": GPU, "pool": "n1", "device": WHOLE.name}
    found = Allocation.from_json({"devices": {"results": [result], "config": entries}})

    state.hold("a", found.results)

    assert isinstance(allocate(state, PART), Refusal if source == "FromClass" else Decision)
    state.release("a")
    assert isinstance(allocate(state, PART), Decision)


@pytest.mark.parametrize("said", [0, 1, 3])
def test_a_published_device_takes_the_larger_amount(said: int) -> None:
    """The driver may have changed it since the allocation: what is in use is at most that, and at least what it was."""
    state = cluster(*chips("n1"))
    part = DeviceId(GPU, "n1", "chip-0-part-0")
    state.hold("a", [DeviceResult("r", part, counters={("chip-0", "units"): said * 10**9})])
    free = 4 - max(said, 1)
    kept = [
        allocate(state, Demand((claim("c", device_request(kind="part", count=count)),)))
        for count in (free, free + 1)
    ]
    assert [type(each) for each in kept] == [Decision, Refusal]


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {"kind": "ConsumedCounters", "devices": "many"},
        {"kind": "ConsumedCounters", "devices": [{"driver": "d", "pool": "p", "device": 3}]},
        {
            "kind": "ConsumedCounters",
            "devices": [{"driver": "d", "pool": "p", "device": "x", "consumesCounters": [{}]}],
        },
        {"kind": "Other", "devices": []},
    ],
)
def test_parameters_that_are_no_record_say_nothing(parameters: Any) -> None:
    """The claim stays readable, no matter who wrote them."""
    opaque = {"driver": WRITER} | ({"parameters": parameters} if parameters is not None else {})
    assert list(amounts_in(opaque)) == []
