"""HCCS: which chips are connected with each other by more than PCIe.

In: a session and the chips. Out: the group of each chip that is connected to another, named by the UUID of the group's first chip,
so that groups of different nodes never have the same name.
"""

from collections.abc import Mapping, Sequence
from ctypes import byref, c_int
from dataclasses import dataclass
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
    top = {node.address.name: node.address.name for node in nodes}

    def find(name: str) -> str:
        while top[name] != name:
            name = top[name]
        return name

    for index, node in enumerate(nodes):
        for other in nodes[index + 1 :]:
            if find(node.address.name) != find(other.address.name) and _linked(
                session, node, other, len(nodes)
            ):
                top[find(other.address.name)] = find(node.address.name)
    members: dict[str, list[Node]] = {}
    for node in nodes:
        members.setdefault(find(node.address.name), []).append(node)
    return {
        node.address.name: group[0].uuid for group in members.values() if len(group) > 1 for node in group
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
