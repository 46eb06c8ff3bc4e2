"""CDI device ids resolved as a container runtime does.

In: ids and spec files. Out: the edits of one container.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml

from testbed.errors import TestbedError

_ENDINGS = (".json", ".yaml", ".yml")


class UnresolvableError(TestbedError):
    """No spec file defines a device, or two do: a runtime then refuses to start the container."""


@dataclass(slots=True)
class Injected:
    """What one container got: environment, paths of device nodes, and mounts by their path in the container."""

    ids: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    device_nodes: list[str] = field(default_factory=list)
    mounts: dict[str, str] = field(default_factory=dict)

    def apply(self, edits: dict[str, Any]) -> None:
        """Add the `containerEdits` of a spec or of one of its devices."""
        for pair in edits.get("env") or ():
            name, _, value = pair.partition("=")
            self.environment[name] = value
        self.device_nodes += [node["path"] for node in edits.get("deviceNodes") or ()]
        self.mounts |= {mount["containerPath"]: mount["hostPath"] for mount in edits.get("mounts") or ()}


def inject(ids: Iterable[str], folder: Path) -> Injected:
    """Resolve ids of the form `vendor/class=name` by the spec files of a folder, as they are now.

    Edits of a whole spec apply once if any of its devices is used. Raises UnresolvableError.
    """
    wanted = list(dict.fromkeys(ids))
    result = Injected(ids=wanted)
    if not wanted:
        return result
    defined: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    conflicting: set[str] = set()
    for spec in _specs(folder):
        for device in spec.get("devices") or ():
            name = f"{spec['kind']}={device['name']}"
            if name in defined:
                conflicting.add(name)
            defined[name] = (spec, device)
    bad = [name for name in wanted if name not in defined or name in conflicting]
    if bad:
        raise UnresolvableError(f"unresolvable CDI devices {', '.join(bad)} in {folder}")
    used: list[dict[str, Any]] = []
    for name in wanted:
        spec, device = defined[name]
        if not any(spec is other for other in used):
            used.append(spec)
            result.apply(spec.get("containerEdits") or {})
        result.apply(device.get("containerEdits") or {})
    return result


def _specs(folder: Path) -> Iterable[dict[str, Any]]:
    """Yield the readable specs; as a runtime, it skips broken files, so their devices are unresolvable."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.suffix not in _ENDINGS:
            continue
        try:
            text = path.read_bytes()
            spec = orjson.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except (OSError, orjson.JSONDecodeError, yaml.YAMLError):
            continue
        if isinstance(spec, dict) and "kind" in spec:
            yield spec
