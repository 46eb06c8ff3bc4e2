"""HCCS: which chips are connected with each other by more than PCIe.

In: a session and the chips. Out: the group of each chip that is connected to another, named by the UUID of the group's first chip,
so that groups of different nodes never have the same name. Chips that do not tell it now are connected as they said before.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import byref, c_int
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Final

import structlog

from apportion.agent.devices.ascend.session import Session
from apportion.agent.devices.ascend.vnpus import ChipAddress
from apportion.agent.devices.cardcalls import CardCalls

_log = structlog.get_logger()

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


class Topology:
    """The connections of one node's chips, as last known."""

    def __init__(self, session: Session, calls: CardCalls) -> None:
        """`calls` ask about pairs of chips, all at once."""
        self._session = session
        self._calls = calls
        self._known: dict[tuple[str, str], bool] = {}
        """Whether two chips are connected, by their cards' names."""
        self.late = False
        """Whether nobody had said of a pair of chips how it is connected when that was last asked."""

    def groups(self, nodes: Sequence[Node], count: int) -> Mapping[str, str]:
        """Return the group of every chip that is connected to another one, by card name; `count`: how many chips there are, with those that do not answer."""
        asked = {
            (one.address.name, other.address.name): partial(_linked, self._session, one, other, count)
            for one, other in combinations(nodes, 2)
        }
        answers = self._calls.ask("links", asked)
        self._known |= {pair: linked for pair, linked in answers.items() if not isinstance(linked, Exception)}
        late = {pair: str(error) for pair, error in answers.items() if isinstance(error, Exception)}
        self.late = bool(late)
        if late:
            _log.warning("ascend.links_unknown", pairs=sorted(late), error=next(iter(late.values())))
        # The index of the first chip of each chip's group.
        first = {node.address.name: index for index, node in enumerate(nodes)}
        for one, other in asked:
            if self._known.get((one, other)):
                low, high = sorted((first[one], first[other]))
                first = {name: low if index == high else index for name, index in first.items()}
        sizes = Counter(first.values())
        return {name: nodes[index].uuid for name, index in first.items() if sizes[index] > 1}


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
