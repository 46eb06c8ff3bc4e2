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
    return {
        device["name"]: device["attributes"]["uuid"]["string"]
        for spec in sorted(ours, key=lambda spec: int(spec["pool"]["generation"]))
        for device in spec.get("devices") or ()
        if device["attributes"].get("type", {}).get("string") == CardKind.GPU
    }
