"""A short soak: random load on two operators and four agents while everything around them fails. `make soak` is the long one."""

import json
from pathlib import Path

import pytest

from testbed.binaries import Binaries
from testbed.faultyproxy import Fault
from testbed.soak.soakrun import SoakRun
from testbed.versions import DEFAULT

SECONDS = 300.0
_SEED = 20260701


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_nothing_is_used_twice_lost_or_leaked_whatever_fails(
    binaries: Binaries, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No violation at any second; afterwards everything is free, and every device can be had; no process grows."""
    result = await SoakRun(binaries, seconds=SECONDS, seed=_SEED, version=DEFAULT, logs=tmp_path).run()
    with capsys.disabled():
        print(f"\nsoak: {result.line()}")  # noqa: T201 - for people who watch
    assert result.problems == []
    # Which things happen depends on what is asked in the time; a run in which few do shows nothing.
    assert result.served > 40
    assert result.allocations > 40
    assert result.forced > 10
    assert len(result.disturbances) >= 6
    assert {Fault.CUT, Fault.EXPIRE, Fault.LOSE_ANSWER, Fault.REPLAY, Fault.STALE, Fault.THROTTLE} <= {
        Fault[name] for name in result.faults
    }
    assert {name for name in json.loads(result.line())["memory"] if name.startswith("operator")}
