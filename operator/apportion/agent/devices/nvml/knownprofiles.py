"""The MIG profiles that a driver has named for a GPU in MIG mode: those of the 535 line name none without it.

In: profiles, when they are named. Out: the same at a later discovery, also by the next agent, as long as the driver is the same one: a claim
that has the GPU whole switches the mode off, and afterwards it can be cut as before. One file for each GPU.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from apportion.agent import files
from apportion.agent.devices.nvml.profiles import MigProfile
from apportion.agent.devices.values import Placement, Profile

_log = structlog.get_logger()


class KnownProfiles:
    """Of one node's GPUs; without a folder they last as long as the process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], tuple[MigProfile, ...]] = {}
        """By UUID of the GPU and version of the driver."""

    def put(self, gpu: str, driver: str, migs: Sequence[MigProfile]) -> None:
        """Keep a GPU's profiles (UUID) under a driver's version. What cannot be written lasts as long as the process."""
        self._known[gpu, driver] = tuple(migs)
        if self._folder is not None:
            text = json.dumps({"driver": driver, "profiles": [asdict(mig) for mig in migs]})
            try:
                files.write(self._folder / f"{gpu}.json", text)
            except OSError as error:
                _log.warning("nvml.profiles_not_kept", gpu=gpu, error=str(error))

    def get(self, gpu: str, driver: str) -> tuple[MigProfile, ...]:
        """Return a GPU's profiles under this version of the driver, none where they are not known."""
        if (gpu, driver) not in self._known and self._folder is not None:
            raw = files.read_json(self._folder / f"{gpu}.json")
            try:
                if raw.get("driver") == driver:
                    self._known[gpu, driver] = tuple(map(_read, raw["profiles"]))
            except (KeyError, TypeError, ValueError) as error:
                _log.warning("nvml.profiles_unreadable", gpu=gpu, error=repr(error))
        return self._known.get((gpu, driver), ())


def _read(raw: dict[str, Any]) -> MigProfile:
    profile = raw["profile"]
    places = tuple(Placement(int(place["start"]), int(place["size"])) for place in profile["placements"])
    return MigProfile(**{**raw, "profile": Profile(**{**profile, "placements": places})})
