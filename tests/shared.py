"""Where the conformance data lies: the folder named by APPORTION_SHARED, or `shared` beside the checkout."""

import os
from pathlib import Path

import pytest


def shared(name: str) -> Path:
    """Return a file of the shared data; skips the test when it is not there."""
    root = Path(os.environ.get("APPORTION_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    path = root / name
    if not path.exists():
        pytest.skip(f"{name} is not there: set APPORTION_SHARED to the folder that holds it")
    return path
