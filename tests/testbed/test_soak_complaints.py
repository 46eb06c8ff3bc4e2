"""What a soak says of programs that end by themselves."""

import sys
from pathlib import Path
from types import SimpleNamespace

from testbed.eventually import eventually
from testbed.soak.ending import complaints
from testbed.supervised import Supervised


def _installation(program: Supervised) -> SimpleNamespace:
    return SimpleNamespace(operators=[program], agents={})


async def _starts(program: Supervised) -> int:
    return program.starts


async def test_a_program_that_crashes_is_a_complaint(tmp_path: Path) -> None:
    """By a signal of its own, as in native code: its log has no word of that, and it is started anew."""
    crash = "import os; os.kill(os.getpid(), 11)"
    program = Supervised("operator-0", [sys.executable, "-c", crash], tmp_path / "log")
    program.start()
    await eventually(lambda: _starts(program), lambda starts: starts > 2, within=30)
    await program.stop()
    (found,) = complaints(_installation(program))  # type: ignore[arg-type]
    assert "operator-0" in found
    assert "SIGSEGV" in found


async def test_a_program_that_the_soak_kills_and_stops_is_none(tmp_path: Path) -> None:
    program = Supervised("operator-0", ["sleep", "600"], tmp_path / "log")
    program.start()
    await eventually(lambda: _starts(program), lambda starts: starts == 1, within=30)
    program.kill()
    await eventually(lambda: _starts(program), lambda starts: starts == 2, within=30)
    await program.stop()
    assert complaints(_installation(program)) == []  # type: ignore[arg-type]
