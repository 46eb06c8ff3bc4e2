"""CDI files: what the container runtime adds to a container, one file per claim and driver.

In: a claim's devices with their edits. Out: a file in the CDI folder, written in one step and synced; the ids that kubelet
passes to the runtime. Format: Container Device Interface 0.5.0, the newest that containerd 1.7 reads.

A container finds its devices by
- `APPORTION_<REQUEST>`: names of the devices of that request, comma separated (request in capitals, other characters as _),
- `APPORTION_<REQUEST>_UUID`: their UUIDs, comma separated,
- `APPORTION_DEVICES`: names of all devices of the claim, and `APPORTION_PARTITION_UUID`: UUIDs of those that are
  partitions. With several claims or drivers in one container the last one wins; the names by request never clash.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.agent.devices.values import DeviceNode, Edits

VERSION = "0.5.0"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Injection:
    """One device of a claim, as the container shall see it."""

    device: str
    requests: tuple[str, ...]
    uuid: str
    partition: bool
    edits: Edits


class CdiFolder:
    """The folder that the container runtime reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, driver: str, claim: str) -> Path:
        """Return where a claim's file is."""
        return self._folder / f"{driver}_{claim}.json"

    def write(self, driver: str, claim: str, injections: Sequence[Injection]) -> None:
        """Write the claim's file, or leave it if it says the same already (a reboot empties the folder)."""
        path = self.path(driver, claim)
        text = json.dumps(spec(driver, claim, injections), indent=1, sort_keys=True)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        # The runtime reads *.json and *.yaml only: it never sees the unfinished file.
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def remove(self, driver: str, claim: str) -> None:
        """Remove the claim's file; an absent one is fine."""
        self.path(driver, claim).unlink(missing_ok=True)

    def claims(self, driver: str) -> set[str]:
        """Return the UIDs of the claims that have a file of this driver."""
        return {path.stem.removeprefix(f"{driver}_") for path in self._folder.glob(f"{driver}_*.json")}


def device_id(driver: str, claim: str, device: str) -> str:
    """Return the id under which kubelet asks the runtime for a device."""
    return f"{driver}/claim={claim}-{device}"


def spec(driver: str, claim: str, injections: Sequence[Injection]) -> Json:
    """Return the content of a claim's file. Pure, and the same for the same devices."""
    common = {
        "APPORTION_DEVICES": ",".join(row.device for row in injections),
        "APPORTION_PARTITION_UUID": ",".join(row.uuid for row in injections if row.partition),
    }
    return {
        "cdiVersion": VERSION,
        "kind": f"{driver}/claim",
        "containerEdits": {"env": _environment(common)},
        "devices": [
            {
                "name": f"{claim}-{row.device}",
                "containerEdits": _edits(row, injections),
            }
            for row in injections
        ],
    }


def _edits(row: Injection, all_rows: Sequence[Injection]) -> Json:
    names: dict[str, str] = {}
    for request in row.requests:
        # Every device of the request says the same, so it does not matter which one the runtime applies last.
        rows = [other for other in all_rows if request in other.requests]
        stem = f"APPORTION_{re.sub('[^A-Z0-9]', '_', request.upper())}"
        names[stem] = ",".join(other.device for other in rows)
        names[f"{stem}_UUID"] = ",".join(other.uuid for other in rows)
    edits: Json = {"env": _environment(dict(row.edits.env) | names)}
    if row.edits.nodes:
        edits["deviceNodes"] = [_node(node) for node in row.edits.nodes]
    if row.edits.mounts:
        edits["mounts"] = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.path,
                "options": ["ro", "rbind", "rprivate", "nosuid", "nodev"],
            }
            for mount in row.edits.mounts
        ]
    return edits


def _environment(values: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items() if value]


def _node(node: DeviceNode) -> Json:
    raw: Json = {"path": node.path}
    if node.host_path:
        raw["hostPath"] = node.host_path
    if node.major is not None and node.minor is not None:
        raw |= {"type": "c", "major": node.major, "minor": node.minor}
    return raw
