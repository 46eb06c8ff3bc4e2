"""`python -m bench.crowd`."""

import orjson
import pytest

from testbed.binaries import Binaries
from tests.bench.running import program


def test_a_crowd_that_waits_takes_nothing_from_another_tenant(binaries: Binaries) -> None:
    """All kinds of pods come, some are served, the others wait; the steady pods get their devices, and none is allocated twice."""
    done = program(
        *("bench.crowd", "--nodes", 3, "--tenants", 4, "--waiting", 60),
        *("--crowd-stay", 3, "--seconds", 8, "--rate", 1, "--stay", 1),
    )
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert found["crowdedNodes"] == 2
    for name in ("before", "during"):
        span = found[name]
        assert span["bound"] == span["allocated"] == span["claimed"] == span["created"] > 0
        assert 0 < span["createdToAllocatedMs"]["p50"] <= span["createdToAllocatedMs"]["max"]
        assert span["passes"] > 0
    assert found["waiting"] > 0
    assert found["served"] > 0
    assert 8 < found["gpusUsed"] <= 16
    assert found["operatorStarts"] == 1
    assert found["requests"]["operator"]["patch acceleratorquotas/status"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rate", 9), "--nodes 2: the steady pods take all of them"),
        (("--waiting", 8, "--rate", 0.5), "--waiting 8: as many fit on 1 nodes with 8 GPUs each"),
    ],
)
def test_a_crowd_that_is_none_is_refused(options: tuple[object, ...], message: str) -> None:
    """Before anything is started; the message names the option."""
    done = program("bench.crowd", "--nodes", 2, *options)
    assert done.returncode == 2
    assert message in done.stderr
