"""HCCL's rank table for the NPUs of one claim on one server.

In: chips by name with their HCCS groups, the node, the host's files. Out: the table as JSON, in the order of its ranks, and what it
lacks for more than one server. Sources: HCCL's rank table of template 1.0 (CANN, "Rank Table Configuration" for Atlas A2 and
training products: every value is text, device_id is the physical id, server_id is shorter than 64, device_ip must be there
with several servers); `address_<physical id>=<IP>` in /etc/hccn.conf (MindSpore, hccl_tools.py).
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apportion.agent.devices.hostfs import HostFiles

ADDRESSES = "/etc/hccn.conf"
"""Where the host has the addresses of the NICs that the chips carry."""
_CHIP = re.compile(r"npu-(\d+)")
_ADDRESS = re.compile(r"(?m)^\s*address_(\d+)\s*=\s*(\S+)\s*$")
_LONGEST_SERVER = 63


@dataclass(frozen=True, slots=True)
class RankTable:
    """The table of one request's chips."""

    text: str
    """JSON."""
    ranks: Mapping[str, int]
    """By chip."""
    addresses: Mapping[str, str]
    """By chip, of those that have one."""

    @property
    def lacking(self) -> str:
        """Why it is of no use to more than one server, "" when it is."""
        names = ", ".join(name for name in self.ranks if name not in self.addresses)
        return f"one server only: {ADDRESSES} has no address of {names}" if names else ""


class RankTables:
    """Of one node."""

    def __init__(self, root: Path, node: str) -> None:
        """`root` is where the host's /etc is."""
        self._host = HostFiles(root)
        self._server = (
            node if len(node) <= _LONGEST_SERVER else hashlib.sha256(node.encode()).hexdigest()[:32]
        )

    def table(self, groups: Mapping[str, str]) -> RankTable | None:
        """Return the table of these whole chips, whose HCCS groups are by name ("" for none); None for fewer than two.

        Chips of one group follow each other, by their physical ids, so that a ring crosses from group to group as seldom as it can.
        """
        chips = {name: int(found[1]) for name in groups if (found := _CHIP.fullmatch(name))}
        if len(chips) < 2 or len(chips) != len(groups):
            return None
        first = {
            group: min(chips[name] for name in chips if groups[name] == group) for group in groups.values()
        }
        order = sorted(
            chips, key=lambda name: (first[groups[name]] if groups[name] else chips[name], chips[name])
        )
        known = dict(_ADDRESS.findall(self._host.text(ADDRESSES)))
        addresses = {name: known[str(chips[name])] for name in order if str(chips[name]) in known}
        rows = [
            {
                "device_id": str(chips[name]),
                **({"device_ip": addresses[name]} if name in addresses else {}),
                "rank_id": str(rank),
            }
            for rank, name in enumerate(order)
        ]
        return RankTable(self._written(rows), {name: rank for rank, name in enumerate(order)}, addresses)

    def _written(self, rows: Sequence[Mapping[str, str]]) -> str:
        table = {
            "status": "completed",
            "version": "1.0",
            "server_count": "1",
            "server_list": [{"server_id": self._server, "device": rows}],
        }
        return f"{json.dumps(table, indent=1)}\n"
