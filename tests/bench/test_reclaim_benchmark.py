"""`python -m bench.reclaim`."""

import orjson
import pytest

from testbed.binaries import Binaries
from tests.bench.running import program


def test_guarantees_come_back_and_nobody_goes_in_vain(binaries: Binaries) -> None:
    """Five teams have all 16 GPUs; three others get the two that are guaranteed to each, for as many pods."""
    done = program("bench.reclaim", "--nodes", 2, "--borrowers", 5, "--owners", 3, "--guaranteed", 2)
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert found["takenBack"] == found["evicted"] == 6
    assert 0 < found["seconds"] < 60
    assert found["operatorCpuSeconds"] > 0


@pytest.mark.slow
def test_what_cannot_come_back_is_refused() -> None:
    """Before anything is started; the message names the option."""
    done = program("bench.reclaim", "--nodes", 2, "--borrowers", 5, "--owners", 1, "--guaranteed", 3)
    assert done.returncode == 2
    assert "--guaranteed 3: 6 teams have more than the 16 GPUs of 2 nodes" in " ".join(done.stderr.split())
