"""The node's cards, partitions and claims as plain values, for tables and JSON. Pure.

In: values of backends and journal. Out: dictionaries with the names that slices and Partition objects use.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.agent.devices.values import Card, Health, LivePartition
from apportion.agent.rows import ClaimDevice, ClaimRow, PartitionRow, Share
from apportion.agent.slices.naming import partition_devices
from apportion.agent.slices.shares import shareable_memory
from apportion.dra.semver import Semver

Json = dict[str, Any]


def card_json(card: Card, health: Health, warning: str) -> Json:
    """Return a card with all that it can be cut into, and what a container would miss."""
    devices = [part.name for part in partition_devices(card)]
    return {
        "name": card.name,
        "kind": str(card.kind),
        "uuid": card.uuid,
        "health": str(health),
        "pciBusID": card.location.pci_bus_id,
        "pcieRoot": card.location.pcie_root,
        "numaNode": card.location.numa_node,
        "attributes": {
            name: str(value) if isinstance(value, Semver) else value
            for name, value in card.attributes.items()
        },
        "capacity": dict(card.capacity),
        "profiles": [
            {
                "name": profile.name,
                "number": profile.number,
                "most": profile.most,
                "placements": [{"start": place.start, "size": place.size} for place in profile.placements],
                "amounts": dict(profile.amounts),
            }
            for profile in card.profiles
        ],
        "devices": devices,
        "warning": warning,
    }


def partition_json(live: LivePartition, rows: Mapping[str, PartitionRow], claims: Sequence[ClaimRow]) -> Json:
    """Return a partition of the hardware and whose it is."""
    row = next((row for row in rows.values() if row.place == live.place and row.is_at(live)), None)
    users = [
        claim.key
        for claim in claims
        if row is not None and any(device.partition == row.uid for device in claim.devices)
    ]
    return {
        "card": live.card,
        "profile": live.profile,
        "start": live.placement.start,
        "size": live.placement.size,
        "uuid": live.uuid,
        "instance": dict(live.instance),
        "complete": live.complete,
        "inUse": live.in_use,
        "owner": "foreign" if row is None else "layout" if row.layout else "partition",
        "partition": row.name if row is not None else "",
        "layout": row.layout if row is not None else "",
        "device": row.device if row is not None else "",
        "step": str(row.step) if row is not None else "",
        "claims": users,
    }


def claim_json(row: ClaimRow) -> Json:
    """Return a prepared claim."""
    return {
        "claim": row.key,
        "uid": row.uid,
        "driver": row.driver,
        "step": str(row.step),
        "devices": [device.device for device in row.devices],
        "shares": [
            {"device": device.device, **_share(device.share)}
            for device in row.devices
            if device.share is not None
        ],
    }


def device_json(device: ClaimDevice) -> Json:
    """Return one device of a prepared claim; `share` is None where the claim has it for itself."""
    return {
        "device": device.device,
        "requests": list(device.requests),
        "share": _share(device.share) if device.share is not None else None,
        "cdi": device.cdi,
    }


def shared_json(claims: Sequence[ClaimRow], cards: Mapping[str, Card]) -> list[Json]:
    """Return the devices that claims share, each with its shares, oldest first, and the memory (bytes) that is left.

    `memory` and `left` are None for a device that is not there now.
    """
    found: dict[str, list[Json]] = defaultdict(list)
    for row in claims:
        for device in row.devices:
            if device.share is not None:
                whose = {"claim": row.key, "uid": row.uid, "step": str(row.step), "admin": device.admin}
                found[device.device].append({**whose, **_share(device.share)})
    memory = {name: shareable_memory(cards[name]) for name in found if name in cards}
    return [
        {
            "device": name,
            "memory": memory.get(name),
            "left": memory[name] - sum(row["memory"] for row in shares if not row["admin"])
            if name in memory
            else None,
            "shares": shares,
        }
        for name, shares in sorted(found.items())
    ]


def _share(share: Share) -> Json:
    return {"shareID": share.id, "memory": share.memory, "cores": share.cores}
