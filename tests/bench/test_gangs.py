"""`python -m bench.gangs`, small."""

import orjson

from testbed.binaries import Binaries
from tests.bench.running import program


def test_groups_that_need_more_than_half_of_the_devices_never_wait_for_each_other_for_ever(
    binaries: Binaries,
) -> None:
    """Each that fits alone is served in the end, and none in part; some need more than there is."""
    done = program("bench.gangs", "--groups", 40, "--within", 150)
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert (found["groups"], found["fitting"], found["served"]) == (40, 38, 38)
    assert found["half_placed"] == []
    assert 0 < found["waited"]["p50"] <= found["waited"]["max"]


def test_a_large_group_is_decided_beside_single_pods_of_others(binaries: Binaries) -> None:
    """All of both are served, and what the single pods waited is told without and beside the group."""
    done = program("bench.gangs", "--pods", 32, "--nodes", 4, "--single", 5)
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert (found["pods"], found["nodes"], found["alone"]["pods"]) == (32, 4, 5)
    assert 0 < found["alone"]["p50"] <= found["alone"]["longest"]
    assert 1 <= found["beside"]["pods"] <= 5
    assert 0 < found["allocated"] <= found["let_go"]
