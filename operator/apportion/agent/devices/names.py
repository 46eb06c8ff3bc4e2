"""The names of cards whose driver gives them no number that lasts: a name belongs to one card, by its UUID, for good.

In: UUIDs. Out: names. Other cards take the name of their slot or of the kernel's device, which lasts as long as the hardware stays.
A profile's name is the driver's, and another version of the driver may give another one: as long as a partition of it exists on a card,
the profile has the name of then, because devices, rows and Partitions go by it.
"""

import re
import threading
from collections.abc import Callable, Collection, Mapping
from itertools import chain, count
from typing import Protocol


class CardNames(Protocol):
    """Which card has which name."""

    def name(self, stem: str, uuid: str, number: int) -> str:
        """Return the name of a card, given when it is first asked for: the stem with `number`, or with one that is free."""

    def known(self) -> Mapping[str, str]:
        """Return the UUIDs of all cards that have a name, also of those that are not there."""

    def profiles(self, uuid: str) -> Mapping[int, str]:
        """Return the names under which partitions exist on a card, by the number of their profile."""


class UnkeptNames:
    """Names that are known, and new ones that last as long as the process."""

    def __init__(
        self,
        known: Mapping[str, str] | None = None,
        profiles: Callable[[str], Mapping[int, str]] = lambda _: {},
    ) -> None:
        """`profiles` returns the names of profiles by the UUID of a card."""
        self._lock = threading.Lock()
        self._known = dict(known or {})
        self.profiles = profiles

    def name(self, stem: str, uuid: str, number: int) -> str:
        """Return the name of a card."""
        with self._lock:
            name = next((name for name, known in self._known.items() if known == uuid), None)
            if name is None:
                name = free_name(stem, number, self._known)
                self._known[name] = uuid
            return name

    def known(self) -> Mapping[str, str]:
        """Return the UUIDs by name."""
        with self._lock:
            return dict(self._known)


def free_name(stem: str, number: int, taken: Collection[str]) -> str:
    """Return the name with this number, or with the lowest one that is free.

    The name of a card that is not there is taken: claims of pods that do not run may still have it allocated, and an agent may
    not list them.
    """
    return next(name for each in chain((number,), count()) if (name := f"{stem}-{each}") not in taken)


_NUMBERED = re.compile(r"-mig-.+-(\d+)-(\d+)(?:-static)?$")


def profile_place(device: str) -> tuple[int, int] | None:
    """Return the profile's number and the start that a device's name says (`gpu-0-mig-3g40gb-9-4`), None for one without."""
    found = _NUMBERED.search(device)
    return (int(found[1]), int(found[2])) if found is not None else None
