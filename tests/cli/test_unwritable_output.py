"""Commands whose answer cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.worlds import two_cards


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["snapshot", "free"])
def test_a_full_disk_ends_in_a_sentence_and_exit_status_2(
    tmp_path: Path, command: str, unbuffered: str
) -> None:
    """Exit status 1 would say that nothing fits."""
    world = two_cards().write(tmp_path / "world.json")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "apportion", command, "--world", str(world)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
        )
    assert done.stderr == "error: standard output: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_not_complained_of(tmp_path: Path, unbuffered: str) -> None:
    """As with `apportion snapshot | true`."""
    world = two_cards().write(tmp_path / "world.json")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "apportion", "snapshot", "--world", str(world)],
        stdout=write,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode != 2
