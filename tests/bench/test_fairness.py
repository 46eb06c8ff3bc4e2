"""`python -m bench.fairness`."""

import json

import pytest

from bench.simulatedtenants import LIFETIME
from tests.bench.running import program
from tests.shared import shared

pytestmark = pytest.mark.slow


def test_tenants_of_a_cohort_share_a_cluster_evenly_and_a_guarantee_is_there_when_it_is_asked_for() -> None:
    """One small draw: Jain's index stays above 0.95, which it does not without quotas; the late one waits for less time than pods live, and without quotas for longer. Two runs differ by a few devices."""
    data = shared("data/openb")
    done = program(
        "bench.fairness",
        "--data",
        data,
        "--seed",
        "1",
        "--nodes",
        "24",
        "--passes",
        "48",
        "--most-reserved",
        "0",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["jain"] >= found["jainLeast"] >= 0.95 > found["jainWithout"]
    assert found["latePasses"] <= LIFETIME < found["latePassesWithout"]
    assert abs(found["allocated"] - found["allocatedWithout"]) < 2


def test_a_folder_without_the_data_is_refused() -> None:
    """The message names what is missing; there is no traceback."""
    done = program("bench.fairness", "--data", "/nowhere")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
