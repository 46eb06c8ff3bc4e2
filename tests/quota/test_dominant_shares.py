"""Weighted dominant shares, guarantees, and what may be taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.dra.quantity import NANO
from apportion.dra.slice import Slice
from apportion.quota.charge import Charge
from apportion.quota.reclaim import reclaimable
from apportion.quota.totals import Totals
from apportion.quota.use import QuotaUse
from tests.quota.quotas import quota

TOTALS = {("gpu", "", "", ""): 100 * NANO, ("npu", "", "", ""): 10 * NANO}


def use_of(name: str, cohort: str | None = "x", **used: int) -> QuotaUse:
    """Return a quota with a guarantee of two GPUs and one NPU, and what it uses."""
    entries = [
        {"name": "gpu", "deviceClass": "gpu", "guaranteed": 2},
        {"name": "npu", "deviceClass": "npu", "guaranteed": 1, "weight": 2},
    ]
    made = quota(name, *entries, cohort=cohort, reclaims=cohort is not None)
    found = QuotaUse(made, frozenset({name}))
    for device_class, count in used.items():
        found.add((Charge(device_class, "d"),) * count)
    return found


def test_the_share_is_the_largest_part_beyond_the_guarantees_by_weight() -> None:
    """Ten of a hundred GPUs beyond two; two of ten NPUs beyond one, at weight two."""
    assert use_of("a", gpu=2, npu=1).share(TOTALS.__getitem__) == 0
    assert use_of("a", gpu=12).share(TOTALS.__getitem__) == pytest.approx(0.1)
    assert use_of("a", gpu=12, npu=3).share(TOTALS.__getitem__) == pytest.approx(0.1)
    assert use_of("a", gpu=12, npu=5).share(TOTALS.__getitem__) == pytest.approx(0.2)
    assert use_of("a", gpu=12).share(TOTALS.__getitem__, [10 * NANO, 0]) == pytest.approx(0.2)


def test_a_resource_that_nobody_publishes_is_used_as_a_whole() -> None:
    """No division by nothing, while the nodes are down."""
    assert use_of("a", gpu=12).share(lambda _: 0) == 1.0


def test_within_the_guarantee_counts_only_what_is_asked() -> None:
    """Too many GPUs are no reason against the NPU that is guaranteed."""
    use = use_of("a", gpu=12)
    assert not use.within_guarantee([NANO, 0])
    assert use.within_guarantee([0, NANO])
    assert not use.within_guarantee([0, NANO], [0, NANO])


def test_what_is_borrowed_can_be_taken_back_by_the_one_who_is_within_the_guarantee() -> None:
    """Of the same cohort only, and only of resources that the demand can use; never what is guaranteed."""
    asker, gpus, npus = use_of("a"), use_of("b", gpu=7), use_of("c", npu=4)
    stranger, modest = use_of("d", "y", gpu=50), use_of("e", gpu=2)
    others = [asker, gpus, npus, stranger, modest]
    [found] = reclaimable(asker, [NANO, 0], others)
    assert (found.use, found.resources) == (gpus, (0,))
    assert reclaimable(use_of("a", gpu=2), [NANO, 0], others) == ()
    assert reclaimable(use_of("a", None), [NANO, 0], others) == ()
    assert [each.use for each in reclaimable(asker, [NANO, NANO], others)] == [gpus, npus]


def test_nothing_is_taken_back_unless_both_quotas_say_so() -> None:
    """By default borrowers keep what they have until they end."""
    asker, borrower = use_of("a"), use_of("b", gpu=7)
    assert reclaimable(asker, [NANO, 0], [asker, borrower])
    entries = [{"name": "gpu", "deviceClass": "gpu", "guaranteed": 2}]
    quiet = QuotaUse(quota("c", *entries, cohort="x"), frozenset({"c"}))
    quiet.add((Charge("gpu", "d"),) * 5)
    assert reclaimable(asker, [NANO, 0], [asker, quiet]) == ()
    quiet.used = [0]
    assert reclaimable(quiet, [NANO], [quiet, borrower]) == ()


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 3))
def test_only_what_is_beyond_a_guarantee_is_ever_named(mine: int, theirs: int, asked: int) -> None:
    """Whatever the amounts."""
    found = reclaimable(use_of("a", gpu=mine), [asked * NANO, 0], [use_of("b", gpu=theirs)])
    assert bool(found) == (mine + asked <= 2 < theirs)


def slice_of(name: str, cards: int) -> Slice:
    """Return a slice of cards that can be cut in seven, or in two halves."""
    slots = {f"slot-{index}": {"value": "1"} for index in range(8)}
    devices = []
    for card in range(cards):
        for label, starts, size, memory in (
            ("gpu", [0], 8, "80Gi"),
            ("half", [0, 4], 4, "40Gi"),
            ("one", range(7), 1, "10Gi"),
        ):
            devices += [
                {
                    "name": f"{label}-{card}-{start}",
                    "attributes": {"type": {"string": label}}
                    | ({} if label == "gpu" else {"profile": {"string": label}}),
                    "capacity": {"memory": {"value": memory}},
                    "consumesCounters": [
                        {
                            "counterSet": f"card-{card}",
                            "counters": {"memory": {"value": memory}}
                            | {
                                key: one for key, one in slots.items() if start <= int(key[-1]) < start + size
                            },
                        }
                    ],
                }
                for start in starts
            ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.apportion.dev", "nodeName": name, "pool": pool, "devices": devices}
    return Slice.from_json({"metadata": {"name": name, "uid": name}, "spec": spec})


def test_devices_that_share_counters_are_not_counted_all_at_once() -> None:
    """The most that fits: seven sevenths, two halves, one whole GPU with its memory."""
    totals = Totals(lambda device, device_class: device.attribute("gpu.apportion.dev/type") == device_class)
    wanted = [("gpu", "", "", ""), ("one", "", "", ""), ("", "half", "", ""), ("", "", "", "memory")]
    slices = {"n1": slice_of("n1", 2), "n2": slice_of("n2", 1)}
    for steps in (1, 0):
        assert len([*totals.refresh(slices, wanted, 1)]) == steps
        assert [totals.of(each) // NANO for each in wanted] == [3, 21, 6, 240 * 2**30]
    del slices["n1"]
    assert [*totals.refresh(slices, wanted, 1)] == []
    assert [totals.of(each) // NANO for each in wanted] == [1, 7, 2, 80 * 2**30]
