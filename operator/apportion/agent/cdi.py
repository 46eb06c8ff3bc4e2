"""CDI files: what the container runtime adds to a container, one file per claim and driver.

In: a claim's devices with their edits. Out: a file in the CDI folder, written in one step and synced; the ids that kubelet
passes to the runtime. Format: Container Device Interface 0.5.0, the newest that containerd 1.7 reads.

A container finds its devices by
- `APPORTION_<REQUEST>`: names of the devices of that request, comma separated (request in capitals, other characters as _),
- `APPORTION_<REQUEST>_UUID`: their UUIDs, comma separated,
- `APPORTION_<REQUEST>_SHARE` and `APPORTION_<REQUEST>_MEMORY`: share IDs of those that it shares with other claims, and the bytes
  of memory that it has of each, comma separated,
- `APPORTION_DEVICES`: names of all devices of the claim, and `APPORTION_PARTITION_UUID`: UUIDs of those that are
  partitions. With several claims or drivers in one container the last one wins; the names by request never clash.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.agent import files
from apportion.agent.devices.values import DeviceNode, Edits, Hook, Mount
from apportion.agent.rows import Share

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
    own: tuple[Mount, ...] = ()
    """Mounts for those containers only that get this device (its metadata)."""
    share: Share | None = None
    """None: the claim has the device for itself."""


class CdiFolder:
    """The folder that the container runtime reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, driver: str, claim: str) -> Path:
        """Return where a claim's file is."""
        return self._folder / f"{driver}_{claim}.json"

    def write(self, driver: str, claim: str, injections: Sequence[Injection]) -> bool:
        """Write the claim's file, or leave it if it has this content already (a reboot empties the folder)."""
        text = json.dumps(spec(driver, claim, injections), indent=1, sort_keys=True)
        return files.write(self.path(driver, claim), text)

    def remove(self, driver: str, claim: str) -> None:
        """Remove the claim's file; an absent one is fine."""
        path = self.path(driver, claim)
        path.unlink(missing_ok=True)
        path.with_suffix(files.UNFINISHED).unlink(missing_ok=True)

    def is_intact(self, driver: str, claim: str) -> bool:
        """Say whether the claim's file is there and can be read."""
        return _kind(self.path(driver, claim)) == f"{driver}/claim"

    def shows(self, driver: str, claim: str, injections: Iterable[Injection]) -> bool:
        """Say whether the claim's file is there and gives containers these devices: their UUIDs, nodes, mounts and hooks."""
        raw = files.read_json(self.path(driver, claim))
        if raw.get("kind") != f"{driver}/claim":
            return False
        try:
            own = {row["name"]: row["containerEdits"] for row in raw["devices"]}
            shared = dict(raw["containerEdits"])
        except (AttributeError, KeyError, TypeError, ValueError):
            # Somebody changed it by hand.
            return False
        for row in injections:
            there = own.get(_name(claim, row.device, row.share), {})
            if not (
                row.uuid in _uuids(there)
                and there.get("deviceNodes", []) == [_node(node) for node in row.edits.nodes]
                and all(_mount(mount) in shared.get("mounts", ()) for mount in row.edits.mounts)
                and all(_hook(hook) in shared.get("hooks", ()) for hook in row.edits.hooks)
            ):
                return False
        return True

    def names(self, driver: str, claim: str, path: str) -> bool:
        """Say whether the claim's file is there and names a path."""
        try:
            return path in self.path(driver, claim).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False

    def mentions(self, path: str) -> bool:
        """Say whether containers get something below a path of the host by a file of this folder; unreadable ones count."""
        if not self._folder.is_dir():
            return False
        for file in self._folder.glob("*.json"):
            try:
                if json.dumps(path)[1:-1] in file.read_text(encoding="utf-8"):
                    return True
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError):
                return True
        return False

    def claims(self, driver: str) -> set[str]:
        """Return the UIDs of the claims that have a file of this driver, unfinished ones included.

        Only files whose name is this driver and a UID count, and whose kind, if they can be read, is this driver's.
        """
        ours = re.compile(rf"{re.escape(driver)}_({files.UID.pattern})(\.json|{re.escape(files.UNFINISHED)})")
        if not self._folder.is_dir():
            return set()
        found = ((path, ours.fullmatch(path.name)) for path in self._folder.iterdir())
        return {match[1] for path, match in found if match and _kind(path) in {"", f"{driver}/claim"}}


def device_id(driver: str, claim: str, device: str, share: Share | None = None) -> str:
    """Return the id under which kubelet asks the runtime for a device, or for a share of it."""
    return f"{driver}/claim={_name(claim, device, share)}"


def _name(claim: str, device: str, share: Share | None) -> str:
    return f"{claim}-{device}" if share is None else f"{claim}-{device}-{share.id}"


def spec(driver: str, claim: str, injections: Sequence[Injection]) -> Json:
    """Return the content of a claim's file. Pure, and the same for the same devices."""
    common = {
        "APPORTION_DEVICES": ",".join(dict.fromkeys(row.device for row in injections)),
        "APPORTION_PARTITION_UUID": ",".join(row.uuid for row in injections if row.partition),
    }
    return {
        "cdiVersion": VERSION,
        "kind": f"{driver}/claim",
        "containerEdits": {"env": _environment(common), **_shared(injections)},
        "devices": [
            {"name": _name(claim, row.device, row.share), "containerEdits": _edits(row, injections)}
            for row in injections
        ],
    }


def _kind(path: Path) -> str:
    """Return a file's CDI kind, "" if it cannot be read."""
    return str(files.read_json(path).get("kind", ""))


def _shared(injections: Sequence[Injection]) -> Json:
    """Return mounts and hooks of all devices, each once: they are the driver's, and hooks must not run twice."""
    mounts = list(dict.fromkeys(mount for row in injections for mount in row.edits.mounts))
    hooks = list(dict.fromkeys(hook for row in injections for hook in row.edits.hooks))
    edits: Json = {}
    if mounts:
        edits["mounts"] = [_mount(mount) for mount in mounts]
    if hooks:
        edits["hooks"] = [_hook(hook) for hook in hooks]
    return edits


def _edits(row: Injection, all_rows: Sequence[Injection]) -> Json:
    names: dict[str, str] = {}
    for request in row.requests:
        # Every device of a request sets the same variables, so the order in which the runtime applies them does not matter.
        rows = [other for other in all_rows if request in other.requests]
        stem = f"APPORTION_{re.sub('[^A-Z0-9]', '_', request.upper())}"
        names[stem] = ",".join(other.device for other in rows)
        names[f"{stem}_UUID"] = ",".join(other.uuid for other in rows)
        shares = [other.share for other in rows if other.share is not None]
        names[f"{stem}_SHARE"] = ",".join(share.id for share in shares)
        names[f"{stem}_MEMORY"] = ",".join(str(share.memory) for share in shares)
    edits: Json = {"env": _environment(dict(row.edits.env) | names)}
    if row.edits.nodes:
        edits["deviceNodes"] = [_node(node) for node in row.edits.nodes]
    if row.own:
        edits["mounts"] = [_mount(mount) for mount in row.own]
    return edits


def _uuids(edits: Json) -> set[str]:
    """Return what the variables of a device name, by UUID, of it and of others that serve its requests."""
    values = (
        value
        for name, _, value in (str(each).partition("=") for each in edits.get("env", ()))
        if name.endswith("_UUID")
    )
    return {uuid for value in values for uuid in value.split(",")}


def _environment(values: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items() if value]


def _mount(mount: Mount) -> Json:
    return {
        "hostPath": mount.host_path,
        "containerPath": mount.container_path,
        "options": list(mount.options),
    }


def _hook(hook: Hook) -> Json:
    return {"hookName": hook.stage, "path": hook.path, "args": list(hook.args)}


def _node(node: DeviceNode) -> Json:
    raw: Json = {"path": node.path}
    if node.host_path:
        raw["hostPath"] = node.host_path
    if node.major is not None and node.minor is not None:
        raw |= {"type": "c", "major": node.major, "minor": node.minor}
    return raw
