"""`python -m bench.poison`."""

import orjson
import pytest

from testbed.binaries import Binaries
from tests.bench.running import program

POISONS = ("selector", "gang", "queue", "never", "zone", "finalizers")


def test_a_storm_takes_nothing_from_another_tenant(binaries: Binaries) -> None:
    """Every poison comes, the other tenant's pods get their devices, no device is allocated twice, no lease is lost."""
    done = program(
        *("bench.poison", "--nodes", 2, "--seconds", 10, "--rate", 2, "--stay", 1),
        *("--claims", 30, "--gang", 20, "--poison-rate", 40),
    )
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert tuple(found["poison"]) == POISONS
    # The first ten, and another one after every 20 s that the storm lasts.
    assert found["poison"].pop("selector") >= 10
    assert found["poison"] == {
        "gang": 20,
        "queue": 30,
        "never": 4,
        "zone": 2,
        "finalizers": 4,
    }
    assert found["poisonNotMade"] == {}
    before, during = found["before"], found["during"]
    assert before["created"] + during["created"] == 2 * (10 + 10)
    for span in (before, during):
        assert span["bound"] == span["allocated"] == span["claimed"] == span["created"] > 0
        assert 0 < span["createdToAllocatedMs"]["p50"] <= span["createdToAllocatedMs"]["max"]
        assert 0 < span["claimedToAllocatedMs"]["max"] <= span["createdToAllocatedMs"]["max"]
        assert span["passes"] > 0
    assert found["leaseLost"] == found["overlapsAtMost"] == 0
    assert found["operatorStarts"] == 1
    assert found["operatorEvents"] > 0
    assert found["finalizerAttacks"]["refused"] == found["finalizerAttacks"]["tried"] > 0
    assert 0 < found["operatorResidentMiB"] <= found["operatorPeakMiB"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gang", 8), "--gang 8: it has to need more than the 8 GPUs"),
        (("--rate", 4), "--rate 4: with --stay 5 its pods need 28 GPUs at once"),
        (("--only", "plague"), "--only"),
    ],
)
def test_a_storm_that_is_none_is_refused(options: tuple[object, ...], message: str) -> None:
    """Before anything is started; the message names the option."""
    done = program("bench.poison", "--nodes", 1, *options)
    assert done.returncode == 2
    assert message in done.stderr
