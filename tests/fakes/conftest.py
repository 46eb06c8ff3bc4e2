from pathlib import Path

import pytest

from testbed.fakes.dcmi.library import FakeDcmi
from testbed.fakes.nvml.library import FakeNvml
from tests.fakes.nvmlprogram import Vendor, run


@pytest.fixture
def vendor() -> Vendor:
    """Run a script against a fake; its variable `answer` comes back."""
    return run


@pytest.fixture
def h100(tmp_path: Path) -> FakeNvml:
    """Give one H100 in MIG mode."""
    return FakeNvml.create(tmp_path / "nvml", ["H100-80GB"], mig=True)


@pytest.fixture
def b4(tmp_path: Path) -> FakeDcmi:
    """Give one 910B4."""
    return FakeDcmi.create(tmp_path / "dcmi", ["910B4"], recovery=tmp_path / "vnpu.cfg", mounted=True)
