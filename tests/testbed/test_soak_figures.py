"""The figures that a soak ends with."""

from io import StringIO

from rich.console import Console

from testbed import violations as rules
from testbed.faultyproxy import Fault
from testbed.soak.figures import figures
from testbed.soak.result import LONGEST_IDLE, SoakResult
from tests.testbed.violationobjects import FIRST, LOW, NODE, claim, known, live, pod, row


def test_overlaps_are_said_from_other_violations() -> None:
    """A device, the counters of a card and a place in the hardware that two have; not a pod away from its devices."""
    devices = known()
    overlaps = [
        *rules.used_twice(live(claim("a", LOW), claim("b", LOW))),
        *rules.overdrawn(live(claim("a", LOW), claim("b", FIRST)), devices, devices.whole),
        *rules.overlapping(NODE, [row(0, 4), row(3, 1)]),
    ]
    others = [*rules.misplaced([pod("n2")], [claim("a", LOW, pod="p")], devices)]
    assert (len(overlaps), len(others)) == (3, 1)
    assert SoakResult(7, violations=[*others, *overlaps]).overlaps == overlaps


def test_a_soak_in_which_nobody_gets_anything_for_minutes_is_no_success() -> None:
    """Nothing is used twice where nothing is given."""
    assert SoakResult(7, idle=LONGEST_IDLE).problems == []
    assert len(SoakResult(7, idle=LONGEST_IDLE + 1).problems) == 1


def test_the_table_has_every_figure() -> None:
    """Numbers that occur nowhere else, so that none is taken for another."""
    numbers = iter(range(1001, 1100))
    faults = {fault.name: next(numbers) for fault in Fault}
    disturbances = {name: next(numbers) for name in ("agent killed", "operator killed")}
    result = SoakResult(
        7,
        pods=next(numbers),
        served=next(numbers),
        forced=next(numbers),
        allocations=next(numbers),
        idle=next(numbers),
        disturbances=disturbances,
        faults=faults,
        violations=["device g is used twice: by a and b"] * 11 + ["pod p on n1: claim a has no devices"] * 12,
        left=["x"] * 13,
        complaints=["x"] * 14,
    )
    shown = StringIO()
    Console(width=120, file=shown).print(figures(result))
    words = shown.getvalue().split()
    said = {int(word) for word in words if word.isdecimal()}
    assert said >= set(range(1001, next(numbers))) | {11, 12, 13, 14, 0}
