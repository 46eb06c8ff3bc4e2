"""`python -m bench.gangs`, small."""

import orjson

from testbed.binaries import Binaries
from tests.bench.running import bench


def test_groups_that_need_more_than_half_of_the_devices_never_wait_for_each_other_for_ever(
    binaries: Binaries,
) -> None:
    """Each that fits alone is served in the end, and none in part; some need more than there is."""
    done = bench("bench.gangs", "--groups", 40, "--within", 150)
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert (found["groups"], found["fitting"], found["served"]) == (40, 38, 38)
    assert found["half_placed"] == []
    assert 0 < found["waited"]["p50"] <= found["waited"]["max"]
