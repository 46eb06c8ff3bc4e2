"""The checker's rules see what they are for, and nothing else."""

from fractions import Fraction
from typing import Any

import pytest

from testbed import violations as rules
from testbed.api import Json
from tests.testbed.violationobjects import (
    FIRST,
    HIGH,
    LOW,
    NODE,
    WHOLE,
    claim,
    known,
    live,
    partition,
    pod,
    row,
    share,
    slices,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("40Gi", 40 * 2**30), ("1", 1), ("2k", 2000), ("1500m", Fraction(3, 2)), ("0.5Mi", 2**19)],
)
def test_a_quantity_is_read_exactly(text: str, value: Fraction) -> None:
    assert rules.number(text) == value


def test_one_device_for_two_claims_is_seen() -> None:
    """The writers of the allocations do not matter."""
    found = list(rules.used_twice(live(claim("a", LOW), claim("b", LOW))))

    assert len(found) == 1
    assert "team/a" in found[0]
    assert "team/b" in found[0]


def test_admin_access_takes_nothing_from_others() -> None:
    assert list(rules.used_twice(live(claim("a", LOW), claim("b", LOW, adminAccess=True)))) == []


def test_one_device_twice_in_one_claim_is_seen() -> None:
    """A claim for two GPUs that got one GPU; two shares of one are two."""
    assert len(list(rules.used_twice(live(claim("a", WHOLE, WHOLE))))) == 1
    both = claim("a", WHOLE, WHOLE)
    for number, result in enumerate(both["status"]["allocation"]["devices"]["results"]):
        result["shareID"] = str(number)
    assert list(rules.used_twice(live(both))) == []
    assert len(list(rules.used_twice(live(claim("a", WHOLE, WHOLE, shareID="1"))))) == 1


def test_a_device_given_whole_to_one_and_in_shares_to_another_is_seen() -> None:
    """A node's GPUs may become shared while a claim has one, and whole while claims share it."""
    found = list(rules.used_twice(live(claim("a", WHOLE), share("b", "10Gi"), share("c", "10Gi"))))

    assert len(found) == 1
    assert all(f"team/{name}" in found[0] for name in "abc")


def test_a_share_of_a_gpu_whose_partition_another_claim_has_is_seen() -> None:
    """However many share a GPU, it takes its counters once."""
    devices = known()
    shares = share("a", "10Gi"), share("b", "10Gi")

    assert list(rules.overdrawn(live(*shares), devices, devices.whole)) == []
    assert len(list(rules.overdrawn(live(*shares, claim("c", HIGH)), devices, devices.whole))) == 1


@pytest.mark.parametrize(("number", "over"), [(8, 0), (9, 1)])
def test_shares_beyond_the_memory_of_a_gpu_are_seen(number: int, over: int) -> None:
    devices, claims = known(), [share(f"c{each}", "10Gi") for each in range(number)]
    found = list(rules.overdrawn(live(*claims), devices, devices.whole))

    assert len(found) == over
    assert all("memory" in text for text in found)


def test_a_capacity_counts_by_the_most_that_was_published() -> None:
    """A driver publishes less while a claim that has lost its share still runs; a capacity that no slice has had so far has no limit."""
    devices = known()
    for piece in slices(memory="10Gi"):
        devices.learn(piece)

    assert list(rules.overdrawn(live(share("a", "80Gi")), devices, devices.whole)) == []
    unknown = claim("b", WHOLE, shareID="2", consumedCapacity={"shares": "1"})
    assert list(rules.overdrawn(live(unknown), devices, devices.whole)) == []


def test_different_devices_of_one_memory_slice_are_seen() -> None:
    """No device is named twice here: only the counters tell."""
    devices = known()
    found = list(rules.overdrawn(live(claim("a", LOW), claim("b", FIRST)), devices, devices.whole))

    assert len(found) == 1
    assert "memory-slice-0" in found[0]


def test_a_card_may_be_used_up() -> None:
    devices = known()
    both = live(claim("a", LOW), claim("b", HIGH))

    assert list(rules.overdrawn(both, devices, devices.whole)) == []
    assert list(rules.overdrawn(both, devices, devices.published)) == []


def test_what_layouts_and_strangers_occupy_is_not_there() -> None:
    """The published set is smaller then; what the card itself would take is not."""
    devices = known(left=7)
    both = live(claim("a", LOW), claim("b", HIGH))

    assert list(rules.overdrawn(both, devices, devices.whole)) == []
    assert len(list(rules.overdrawn(both, devices, devices.published))) == 1


@pytest.mark.parametrize(
    ("bound", "claims", "word"),
    [
        (pod("n2"), [claim("a", LOW, pod="p")], "has devices on n1"),
        (pod("n1", reserved="q"), [claim("a", LOW, pod="p")], "not reserved"),
        (pod("n1"), [], "no devices"),
    ],
)
def test_a_pod_away_from_its_devices_is_seen(bound: Json, claims: list[Json], word: str) -> None:
    assert any(word in text for text in rules.misplaced([bound], claims, known()))


@pytest.mark.parametrize("result", [{}, {"adminAccess": True}, {"shareID": "1"}])
def test_a_pod_beside_its_devices_is_fine(result: dict[str, Any]) -> None:
    """Also beside those that it shares."""
    claims = [claim("a", LOW, pod="p", **result)]
    assert list(rules.misplaced([pod("n1")], claims, known())) == []
    assert len(list(rules.misplaced([pod("n2")], claims, known()))) == 1


def test_partitions_that_share_a_memory_slice_are_seen() -> None:
    assert len(list(rules.overlapping(NODE, [row(0, 4), row(3, 1)]))) == 1
    assert list(rules.overlapping(NODE, [row(0, 4), row(4, 4), row(0, 4, card="gpu-1")])) == []


def test_a_partition_that_nobody_owns_is_seen() -> None:
    """A person's own is left alone."""
    rows = [row(0, 4), row(4, 4), row(4, 4, card="gpu-1", foreign=True)]
    found = list(rules.unexplained(NODE, rows, [partition(LOW, 0, 4)]))

    assert len(found) == 1
    assert "at 4+4" in found[0]


def test_copies_of_a_vnpu_are_counted() -> None:
    """Their places are the driver's business."""
    one = partition("npu-0-vir05-1c-8g-0", 0, 1)
    del one["spec"]["placement"]
    assert len(list(rules.unexplained(NODE, [row(100, 1), row(101, 1)], [one]))) == 1
    assert list(rules.unexplained(NODE, [row(107, 1)], [one])) == []


def test_a_partition_of_a_holder_that_is_gone_is_seen() -> None:
    held = partition(LOW, 0, 4, holder="a")

    assert "gone" in next(rules.orphaned([held], [], []))
    assert "not got that device" in next(rules.orphaned([held], [claim("a", HIGH)], []))
    assert list(rules.orphaned([held, partition(HIGH, 4, 4)], [claim("a", LOW)], [])) == []


def test_a_reserved_device_that_is_not_cut_is_seen() -> None:
    """So is one that is cut for somebody else."""
    held = partition(LOW, 0, 4, holder="a", uuid="MIG-1")
    reserved, devices = claim("a", LOW, pod="p"), known()

    assert list(rules.uncut([reserved], [held], [row(0, 4, uuid="MIG-1")], devices)) == []
    assert "not cut" in next(rules.uncut([reserved], [held], [], devices))
    other = partition(LOW, 0, 4, holder="b", uuid="MIG-1")
    assert "holder" in next(rules.uncut([reserved], [other], [row(0, 4, uuid="MIG-1")], devices))
