"""Shared data: the folder named by APPORTION_SHARED, or the folder `shared` next to the checkout."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("APPORTION_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def shared(name: str) -> Path:
    """Return a file of the shared data; skips the test if it is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not there: set APPORTION_SHARED to the folder that holds it")
    return path
