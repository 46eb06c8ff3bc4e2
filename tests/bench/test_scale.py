"""`python -m bench.scale`."""

import orjson
import pytest

from testbed.binaries import Binaries
from tests.bench.running import program

EVENTS = ("claimEvents", "podEvents", "nodeEvents", "partitionEvents")


def test_every_phase_is_measured_on_a_small_cluster(binaries: Binaries) -> None:
    """Six nodes: the objects in etcd are served, the operator counts their devices as in use, and a stand-by takes over."""
    done = program(
        *("bench.scale", "--nodes", 6, "--pods", 30, "--claims", 12, "--waiting", 5),
        *("--published", "mig", "--partitions", 4, "--window", 3, "--lease", 9, "--limit", 90),
    )
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert found["start"]["count"] == 6 + 6 * 9 + 30 + 12 + 4
    assert 0 < found["start"]["residentMiB"] <= found["start"]["peakMiB"]
    assert found["idle"]["passes"] >= 1
    assert found["oneClaim"]["passMeanMs"] > 0
    assert found["oneClaim"]["allocatedMs"] <= found["oneClaim"]["allocatedMaxMs"]
    assert [found[name]["count"] for name in EVENTS] == [12, 30, 6, 4]
    assert found["claimEvents"]["perCpuSecond"] > 0
    assert found["waiting"]["allocatedPerSecond"] > 0
    assert found["failover"]["leaseSeconds"] == 9
    assert 0 < found["failover"]["seconds"] < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--claims", 9, "--pods", 9), "--claims: 9, but there are at most 8 whole GPUs"),
        (("--claims", 2, "--pods", 1), "--claims: 2, but there are at most 1 pods"),
        (("--claims", 1, "--pods", 9, "--partitions", 1), "--partitions 1: they are published with"),
    ],
)
def test_a_world_that_cannot_be_is_refused(options: tuple[object, ...], message: str) -> None:
    """Before anything is started; the message names the option."""
    done = program("bench.scale", "--nodes", 1, *options)
    assert done.returncode == 2
    assert message in done.stderr
