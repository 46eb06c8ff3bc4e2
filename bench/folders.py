"""Folders of the benchmarks: the shared data, and a cache for what can be made again."""

import os
from pathlib import Path

import platformdirs

from apportion.errors import BrokenInput


def shared(name: str) -> Path:
    """Return a file or folder of the shared data: below APPORTION_SHARED, or below `shared` next to the checkout.

    Raises BrokenInput if it does not exist.
    """
    default = Path(__file__).resolve().parents[2] / "shared"
    path = Path(os.environ.get("APPORTION_SHARED", default)) / name
    if not path.exists():
        raise BrokenInput(
            f"{path} is not there; set APPORTION_SHARED to the folder that holds {name}", field="shared data"
        )
    return path


def cache() -> Path:
    """Return the folder in the user's cache for generated scenarios, the built peer and its answers."""
    folder = platformdirs.user_cache_path("apportion") / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
