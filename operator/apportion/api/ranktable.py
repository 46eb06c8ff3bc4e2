"""HCCL's rank table: the file by which the processes of a job find each other's chips.

In: chips in the order of their ranks. Out: the table as JSON. Sources, all read in November 2026:

- Template 1.0: `status`, `version`, `server_count` and `server_list` with `server_id` (text, shorter than 64, another one for each server) and for each chip its
  `device_id` (the physical one, as in /dev/davinci<id>), `device_ip` (of the NIC that the chip carries) and `rank_id` (from 0, another one for each chip); every value is text
  (CANN 8.0, HCCL user guide, "ranktable file", hcclug_000014).
- Template 1.2, of super pods (Atlas A3): the same, and for each chip its `super_device_id`, the id in the super pod; and `super_pod_list` with `super_pod_id` and the `server_id`s
  of each (CANN 8.2.RC1, the same page; Ascend/mind-cluster, ascend-operator, pkg/ranktable/v1dot2). The id in the super pod is what the driver calls SDID
  (npu-smi info -t spod-info; DCMI `dcmi_spod_info.sdid`).
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LONGEST_SERVER: Final = 63


@dataclass(frozen=True, slots=True)
class Chip:
    """One whole NPU."""

    node: str
    name: str
    """Of the device."""
    id: int
    """The physical one."""
    group: str = ""
    """HCCS group; empty: of none."""
    address: str = ""
    """Of the NIC that it carries; empty: not known."""
    super_pod: int | None = None
    """Id of its super pod; None: it is in none."""
    super_device: int | None = None
    """Its id in the super pod."""


def ring_of(chips: Iterable[Chip]) -> list[Chip]:
    """Return chips of one node in the order of a ring.

    Chips of one group follow each other, by their physical ids, so that a ring crosses from group to group as seldom as it can.
    """
    known = sorted(chips, key=lambda chip: chip.id)
    first: dict[str, int] = {}
    for chip in known:
        first.setdefault(chip.group, chip.id)
    return sorted(known, key=lambda chip: (first[chip.group] if chip.group else chip.id, chip.id))


def rank_table(chips: Sequence[Chip], *, indent: int | None = None) -> str:
    """Return the table of chips, the first of which has rank 0; chips of super pods are all in one."""
    servers: dict[str, list[dict[str, str]]] = {}
    pods: dict[int, dict[str, None]] = {}
    for rank, chip in enumerate(chips):
        row = {"device_id": str(chip.id)}
        if chip.super_device is not None:
            row["super_device_id"] = str(chip.super_device)
        if chip.address:
            row["device_ip"] = chip.address
        servers.setdefault(server_id(chip.node), []).append(row | {"rank_id": str(rank)})
        if chip.super_pod is not None:
            pods.setdefault(chip.super_pod, {})[server_id(chip.node)] = None
    table: dict[str, Any] = {
        "status": "completed",
        "version": "1.2" if pods else "1.0",
        "server_count": str(len(servers)),
        "server_list": [{"server_id": name, "device": rows} for name, rows in servers.items()],
    }
    if pods:
        table["super_pod_list"] = [
            {"super_pod_id": str(pod), "server_list": [{"server_id": name} for name in names]}
            for pod, names in pods.items()
        ]
    return json.dumps(table, indent=indent, separators=(",", ":") if indent is None else None)


def server_id(node: str) -> str:
    """Return the name of a server in tables: the node's, or another one where that is too long."""
    return node if len(node) <= _LONGEST_SERVER else hashlib.sha256(node.encode()).hexdigest()[:32]
