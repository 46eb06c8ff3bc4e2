"""The simulation of time: who waits for how long follows from arrivals, runtimes and what the operator's cycle decides."""

import pytest

from bench.backfill import draw
from bench.simulatedqueue import Arrival, Mode, Outcome, Simulation

NODES = [{"sn": "n1", "gpu": "8", "cpu_milli": "96000", "memory_mib": "1000"}]


def _arrival(at: float, devices: int, runs: float, declares: float | None = None) -> Arrival:
    return Arrival(at, devices, 1000, 10, runs, declares if declares is not None else runs)


def _run(mode: Mode, *arrivals: Arrival) -> Outcome:
    return Simulation(NODES, mode).run(arrivals, step=60.0, warm=0.0, until=7200.0)


STREAM = [_arrival(60.0 * number, 1, 480.0) for number in range(90)]


@pytest.mark.slow
async def test_a_large_pod_waits_until_the_end_in_a_stream_of_small_ones_and_starts_when_devices_are_reserved() -> (
    None
):
    """The stream alone uses all devices at any time."""
    large = _arrival(900.0, 8, 600.0)
    arrivals = sorted([*STREAM, large], key=lambda each: each.at)
    without, reserved = _run(Mode("none", 0), *arrivals), _run(Mode("one", 1), *arrivals)
    assert min(without.waits[8]) > 4000.0
    assert max(reserved.waits[8]) <= 900.0
    assert reserved.reserved > 0
    assert reserved.late == []


@pytest.mark.slow
async def test_what_is_used_is_counted_in_gpu_seconds() -> None:
    """Within the time that counts."""
    found = _run(Mode("none", 0), _arrival(0.0, 8, 600.0), _arrival(0.0, 2, 60.0))
    assert found.used == 8 * 600.0 + 2 * 60.0
    assert found.waits == {8: [0.0], 2: [600.0]}


def test_pods_that_fit_no_node_are_not_drawn_and_none_declares_less_than_it_runs() -> None:
    """Two rows of a list, one of which is too large."""
    row = {"num_gpu": "1", "gpu_milli": "1000", "cpu_milli": "1", "memory_mib": "1"}
    row |= {"scheduled_time": "0", "deletion_time": "600"}
    found = draw([row, row | {"num_gpu": "9"}], NODES, 1, 4.0, 6000.0)
    assert {each.devices for each in found} == {1}
    assert all(each.declares is not None and each.declares >= each.runs for each in found)
    assert found == draw([row], NODES, 1, 4.0, 6000.0)
