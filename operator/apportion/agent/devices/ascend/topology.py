"""HCCS: which chips are connected with each other by more than PCIe.

In: a session and the chips. Out: the group of each chip that is connected to another, named by the UUID of the group's first chip,
so that groups of different nodes never have the same name.
"""

from collections.abc import Mapping, Sequence
from ctypes import byref, c_int
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from apportion.agent.devices.ascend.session import Session
from apportion.agent.devices.ascend.vnpus import ChipAddress

_HCCS: Final = 3
_SWITCHED: Final = frozenset({6, 7})
"""SIO and switched HCCS: of A3 only, where the numbers from 6 on mean that (DCMI_TOPO_TYPE of 910_93)."""
_A3: Final = ("Ascend910", "910_93", "910C")
_RING: Final = 4
"""A 910A server has two rings of four, ids 0-3 and 4-7; its library does not report them."""


@dataclass(frozen=True, slots=True)
class Node:
    """A chip in the topology."""

    address: ChipAddress
    uuid: str
    chip: str
    phy: int


def groups(session: Session, nodes: Sequence[Node]) -> Mapping[str, str]:
    """Return the group of every chip that is connected to another one, by card name."""
    first = list(range(len(nodes)))  # the index of the first chip of each chip's group
    for (one, node), (two, other) in combinations(enumerate(nodes), 2):
        low, high = sorted((first[one], first[two]))
        if low != high and _linked(session, node, other, len(nodes)):
            first = [low if index == high else index for index in first]
    return {
        node.address.name: nodes[index].uuid
        for node, index in zip(nodes, first, strict=True)
        if first.count(index) > 1
    }


def _linked(session: Session, one: Node, other: Node, count: int) -> bool:
    kind = c_int(-1)
    code = session.ask(
        "dcmi_get_topo_info_by_device_id",
        one.address.card,
        one.address.device,
        other.address.card,
        other.address.device,
        byref(kind),
    )
    if code == 0:
        switched = kind.value in _SWITCHED and one.chip.startswith(_A3)
        return kind.value == _HCCS or switched
    server = count == 2 * _RING and one.chip.startswith("910") and not one.chip.startswith(("910B", "910_93"))
    return server and one.phy // _RING == other.phy // _RING
