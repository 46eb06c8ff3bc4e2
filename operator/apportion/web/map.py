"""The map: nodes with their cards, a page at a time; and one node.

In: the cluster as observed, a page or the name of a node. Out: rows to draw.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from apportion.api.partition import Partition
from apportion.cli.answers.cards import Card, cards
from apportion.cli.answers.holders import Holder, holders
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.web.cardbar import CardRow, card_row
from apportion.web.observed import Observed
from apportion.web.paging import Paging, paging

NODES = 50
"""Nodes on a page."""


@dataclass(frozen=True, slots=True)
class NodeRows:
    """One node of the map."""

    name: str
    """Empty: cards that several nodes could use."""
    notes: tuple[str, ...]
    """What keeps pods off the node."""
    cards: tuple[CardRow, ...]


@dataclass(frozen=True, slots=True)
class MapPage:
    """One page of the map."""

    counts: Mapping[str, int]
    models: Mapping[str, int]
    paging: Paging
    nodes: tuple[NodeRows, ...]


def map_page(observed: Observed, page: int) -> MapPage:
    """Return a page of the map."""
    nodes = observed.nodes()
    shown = paging(len(nodes), NODES, page)
    rows = node_rows(observed, nodes[shown.start : shown.end])
    return MapPage(observed.counts(), observed.models(), shown, rows)


def node_rows(observed: Observed, names: Collection[str]) -> tuple[NodeRows, ...]:
    """Return the rows of some nodes."""
    snapshot, holds = observed.snapshot, observed.world.holds
    held: dict[DeviceId, list[Holder]] = {}
    for holder in holders(snapshot, holds, names):
        held.setdefault(holder.card, []).append(holder)
    cut: dict[DeviceId, list[Partition]] = {}
    for each in snapshot.partitions.values():
        if each.spec.node_name in names:
            cut.setdefault(DeviceId(each.spec.driver, each.spec.pool, each.spec.parent), []).append(each)
    devices = {
        device.id: device
        for piece in snapshot.slices.values()
        if (piece.availability.node or "") in names
        for device in piece.devices
    }
    found: dict[str, list[Card]] = {name: [] for name in names}
    for card in cards(snapshot, holds, names):
        found[card.node].append(card)
    return tuple(
        NodeRows(
            name,
            _notes(snapshot, name),
            tuple(
                card_row(
                    snapshot,
                    card,
                    devices[card.device],
                    held.get(card.device, ()),
                    cut.get(card.device, ()),
                )
                for card in of_node
            ),
        )
        for name, of_node in found.items()
    )


def _notes(snapshot: Snapshot, name: str) -> tuple[str, ...]:
    node = snapshot.node(name)
    if node is None:
        return ("no Node object",) if name else ()
    cordoned = ("cordoned",) if node.unschedulable else ()
    return *cordoned, *(f"taint {taint.key}: {taint.effect}" for taint in node.taints)
