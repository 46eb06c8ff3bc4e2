"""Ports that are chosen before somebody listens on them."""

import secrets
import subprocess
import sys

import pytest

from testbed import ports
from testbed.installation import REPOSITORY, product_environment

_CHOOSE = """
from testbed import ports
ports._RANGE = range({start}, {stop})
print(*ports.free_ports(1))
"""


def test_a_port_is_given_once_while_nobody_listens_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To nobody else in this process, nor in one beside it, such as another worker of the tests."""
    start = 15_000 + secrets.randbelow(4_000)  # others may run this test on the machine, too
    few = range(start, start + 4)
    monkeypatch.setattr(ports, "_RANGE", few)
    first, second = ports.free_ports(2), ports.free_ports(1)
    assert not set(first) & set(second)
    [left] = {*few}.difference(first, second)
    done = subprocess.run(
        [sys.executable, "-c", _CHOOSE.format(start=few.start, stop=few.stop)],
        env=product_environment(),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(left)]
    ports.free_ports(1)  # that process has ended
    with pytest.raises(OSError, match="no 1 free ports between"):
        ports.free_ports(1)
