"""HCCL's rank table for the NPUs of one claim on one server, and where the host has the addresses of its chips.

In: chips by name with their HCCS groups, the node, the host's files. Out: the table as JSON, in the order of its ranks, and what it
lacks for more than one server (`api/ranktable.py`). Source of the file: `address_<physical id>=<IP>` in /etc/hccn.conf (MindSpore, hccl_tools.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apportion.agent.devices.hostfs import HostFiles
from apportion.api.ranktable import Chip, rank_table, ring_of

ADDRESSES = "/etc/hccn.conf"
"""Where the host has the addresses of the NICs that the chips carry."""
_CHIP = re.compile(r"npu-(\d+)")
_ADDRESS = re.compile(r"(?m)^\s*address_(\d+)\s*=\s*(\S+)\s*$")


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
        self._root = root
        self._node = node

    def table(self, groups: Mapping[str, str]) -> RankTable | None:
        """Return the table of these whole chips, whose HCCS groups are by name ("" for none); None for fewer than two."""
        ids = {name: int(found[1]) for name in groups if (found := _CHIP.fullmatch(name))}
        if len(ids) < 2 or len(ids) != len(groups):
            return None
        known = addresses(self._root)
        chips = ring_of(
            Chip(self._node, name, number, groups[name], known.get(number, ""))
            for name, number in ids.items()
        )
        return RankTable(
            f"{rank_table(chips, indent=1)}\n",
            {chip.name: rank for rank, chip in enumerate(chips)},
            {chip.name: chip.address for chip in chips if chip.address},
        )


def addresses(root: Path) -> dict[int, str]:
    """Return the addresses of the NICs that chips carry, by physical id, as the host has them; `root` is where its /etc is."""
    return {int(number): address for number, address in _ADDRESS.findall(HostFiles(root).text(ADDRESSES))}
