"""The folder of a control daemon: where it meets its clients, and what is noted for those who find it without a journal.

In: a path that host and agent see alike. Out: folders, or NotReady with the reason.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apportion.agent import files
from apportion.errors import NotReady

_CARDS: Final = "cards.json"
"""The UUIDs of the daemon's whole cards."""


def make(folder: Path, cards: Sequence[str]) -> None:
    """Make a daemon's folders, and note in which cards' compute mode will be changed for it."""
    try:
        for name in ("pipe", "shm", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        # Users of all containers meet here, as in any /dev/shm.
        (folder / "shm").chmod(0o1777)
        files.write(folder / _CARDS, json.dumps({"cards": list(cards)}))
    except OSError as error:
        raise NotReady(f"{folder} cannot be made: {error}") from None


def cards_in(folder: Path) -> tuple[str, ...]:
    """Return what was noted, nothing where it cannot be read."""
    cards = files.read_json(folder / _CARDS).get("cards")
    return tuple(str(card) for card in cards) if isinstance(cards, list) else ()


def remove(folder: Path) -> None:
    """Remove a daemon's folder; none is fine."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise NotReady(f"{folder} cannot be removed: {error}") from None
