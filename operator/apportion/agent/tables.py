"""The node's cards, partitions and claims as plain values, for tables and JSON. Pure.

In: values of backends and journal. Out: dictionaries with the names that slices and Partition objects use.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.agent.devices.values import Card, Health, LivePartition
from apportion.agent.rows import ClaimRow, PartitionRow
from apportion.agent.slices.naming import partition_devices
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
    row = next(
        (row for row in rows.values() if row.place == live.place and row.uuid in ("", live.uuid)), None
    )
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
            {"device": device.device, "shareID": device.share.id, "memory": device.share.memory}
            for device in row.devices
            if device.share is not None
        ],
    }
