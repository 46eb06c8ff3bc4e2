"""RDMA devices whose interface is in a pod, as the host's /sys showed them before: it does not show all of them meanwhile.

In: devices before they go. Out: the same, for an agent that starts while they are away. One file for each, in a folder that a reboot
empties; beside the device it has what the journal says of it, for the case that the journal is lost.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from apportion.agent import files
from apportion.agent.devices.rdma.sysfs import CharDevice, Port, RdmaDevice
from apportion.agent.laterfields import without_later

AWAY: Final = "away"
"""The folder's name below the agent's own in /run."""


class AwayFolder:
    """The files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, device: RdmaDevice, row: Mapping[str, str]) -> None:
        """Write down a device, and its row in the journal, before it goes."""
        files.write(
            self._folder / f"{key}.json", json.dumps({"device": asdict(device), "row": dict(row)}), sync=False
        )

    def drop(self, key: str) -> None:
        """Forget a device that is back; one that is not known is fine."""
        (self._folder / f"{key}.json").unlink(missing_ok=True)

    def devices(self) -> tuple[RdmaDevice, ...]:
        """Return the devices, in the order of their names; one that cannot be read is left out."""
        found = []
        for _, raw in self._all():
            with suppress(ValueError, TypeError, KeyError):
                found.append(_device(raw["device"]))
        return tuple(sorted(found, key=lambda device: device.name))

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the rows by key."""
        return {key: raw["row"] for key, raw in self._all()}

    def _all(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for path in sorted(self._folder.glob("*.json")):
            raw = files.read_json(path)
            if {"device", "row"} <= raw.keys():
                yield path.stem, raw


def _device(raw: Mapping[str, Any]) -> RdmaDevice:
    read = {
        "ports": tuple(Port(**without_later(Port, port)) for port in raw["ports"]),
        "interfaces": tuple(raw["interfaces"]),
        "files": tuple(CharDevice(**without_later(CharDevice, file)) for file in raw["files"]),
    }
    return RdmaDevice(**{**without_later(RdmaDevice, raw), **read})
