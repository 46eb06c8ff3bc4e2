"""The cards that the node's slices name: what an agent before this one published.

In: ResourceSlices. Out: UUIDs by name. They tell which card had which name after the journal was lost, or before it kept names.
"""

from collections.abc import Collection, Iterable
from typing import Any

from apportion.api.contract import GUARD


def published_cards(
    slices: Iterable[dict[str, Any]], node: str, drivers: Collection[str], kinds: Collection[str]
) -> dict[str, str]:
    """Return the whole cards of these kinds in the node's pools by name; of two generations of a pool the later one counts."""
    ours = [
        item["spec"]
        for item in slices
        if item["spec"]["driver"] in drivers and item["spec"]["pool"]["name"] == node
    ]
    found = {
        device["name"]: _text(device, "uuid")
        for spec in sorted(ours, key=lambda spec: int(spec["pool"]["generation"]))
        for device in spec.get("devices") or ()
        if _text(device, "type") in kinds
    }
    # A driver of another vendor may have published under this name: what it does not tell is not known.
    return {name: uuid for name, uuid in found.items() if uuid}


def formerly_ours(slices: Iterable[dict[str, Any]], node: str, drivers: Collection[str]) -> list[str]:
    """Return the drivers of the node's own pools that an agent served under another configuration, and this one does not.

    Every device that an agent publishes has the guard taint, and nobody else's has: where one is without, none is ours.
    """
    guarded: dict[str, set[bool]] = {}
    for item in slices:
        spec = item["spec"]
        if spec["driver"] not in drivers and spec["pool"]["name"] == node:
            taints = (
                {taint.get("key") for taint in device.get("taints") or ()}
                for device in spec.get("devices") or ()
            )
            guarded.setdefault(spec["driver"], set()).update(GUARD in keys for keys in taints)
    return [driver for driver, found in sorted(guarded.items()) if found == {True}]


def _text(device: dict[str, Any], name: str) -> str:
    value = (device.get("attributes") or {}).get(name) or {}
    return str(value.get("string", ""))
