from pathlib import Path

import pytest

from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, SECOND


@pytest.fixture
def host(tmp_path: Path) -> FpgaHost:
    """Give a host with two FPGA cards on different roots."""
    made = FpgaHost(tmp_path / "root")
    made.add(FIRST)
    made.add(SECOND, bridge="18", numa=0, free_regions="1")
    return made
