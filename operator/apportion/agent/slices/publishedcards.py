"""The cards that the node's slices name: what an agent before this one published.

In: ResourceSlices. Out: UUIDs by name. They tell which card had which name after the journal was lost, or before it kept names.
"""

from collections.abc import Collection, Iterable
from typing import Any

from apportion.agent.devices.values import CardKind


def published_gpus(slices: Iterable[dict[str, Any]], node: str, drivers: Collection[str]) -> dict[str, str]:
    """Return the whole GPUs of the node's pools by name; of two generations of a pool the later one counts."""
    ours = [
        item["spec"]
        for item in slices
        if item["spec"]["driver"] in drivers and item["spec"]["pool"]["name"] == node
    ]
    found = {
        device["name"]: _text(device, "uuid")
        for spec in sorted(ours, key=lambda spec: int(spec["pool"]["generation"]))
        for device in spec.get("devices") or ()
        if _text(device, "type") == CardKind.GPU
    }
    # A driver of another vendor may have published under this name: what it does not tell is not known.
    return {name: uuid for name, uuid in found.items() if uuid}


def _text(device: dict[str, Any], name: str) -> str:
    value = (device.get("attributes") or {}).get(name) or {}
    return str(value.get("string", ""))
