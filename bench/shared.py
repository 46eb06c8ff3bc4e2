"""Where the shared data lies: the folder named by APPORTION_SHARED, or `shared` beside the checkout."""

import os
from pathlib import Path

from apportion.errors import BrokenInput


def shared(name: str) -> Path:
    """Return a file or folder of the shared data; raises BrokenInput when it is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    root = Path(os.environ.get("APPORTION_SHARED", beside))
    path = root / name
    if not path.exists():
        raise BrokenInput(
            f"{path} is not there; set APPORTION_SHARED to the folder that holds {name}", field="shared data"
        )
    return path
