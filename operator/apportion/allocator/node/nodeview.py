"""One node as the allocator sees it: its devices in order, and what is left of them.

In: the pools of the node and the ledger. Out: bit masks over the node's devices, counter groups and their states, the
devices that a request may take. A view is built when its slices change and follows what is held.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from apportion.allocator.memo import Memo, Memos, Topic
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES, Neighbours
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.occupancy import NodeOccupancy
from apportion.allocator.node.selection import Selected, SelectorTexts, select
from apportion.allocator.node.template import NodeTemplates, pool_on_node
from apportion.allocator.rules.attributes import AttributeIndex, AttributeValue
from apportion.allocator.rules.capacity import charge, fits
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.nodeerror import ErrorCause
from apportion.allocator.rules.pools import NodeInfo, PoolView
from apportion.allocator.rules.query import Alternative
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.rules.slices import SliceView
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import Device, DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.selection import NodeSelector
from apportion.dra.slice import Slice
from apportion.dra.taint import Toleration, untolerated
from apportion.errors import BrokenInput

MOST_LOCAL = 64
"""Tolerations and attributes that a node keeps for itself."""
MOST_SELECTIONS = 256
"""Selections that a node keeps for itself."""
MOST_CHARGES = 4096
"""Capacity charges that a node keeps."""


class NodeView(Memos, NodeOccupancy):
    """A node's devices and what is left of them."""

    __slots__ = (
        "_attribute_indexes",
        "_charges",
        "_crowded",
        "_ids",
        "_local",
        "_memos",
        "_own",
        "_tolerated",
        "all_node_local",
        "devices",
        "features",
        "incomplete",
        "invalid",
        "node",
        "node_class",
        "results",
        "slices",
    )

    def __init__(
        self,
        node: NodeInfo,
        pools: Sequence[PoolView],
        views: Callable[[Slice], SliceView],
        templates: NodeTemplates,
        features: Features,
    ) -> None:
        self.node = node
        self.features = features
        usable = [pool for pool in pools if pool.usable]
        usable.sort(key=lambda pool: (pool.binds, pool.id.driver, pool.id.name))
        self.incomplete = next((pool.id for pool in pools if pool.incomplete), None)
        self.invalid = next((pool for pool in pools if pool.invalid), None)
        parts = [pool_on_node(pool, views, node, features) for pool in usable]
        self.slices = tuple([row.view for one in parts for row in one.slices])
        self.devices: list[Device] = []
        for piece in self.slices:
            self.devices += piece.slice.devices
        template = templates.of(parts)
        indexes_by_name = {
            pool.id: templates.index_by_name(self.devices, template.visible & mask)
            for pool, mask in zip(usable, template.pool_masks, strict=True)
        }
        super().__init__(template, indexes_by_name)
        self.all_node_local = all(
            where.node is not None and not where.per_device
            for where in [piece.slice.availability for piece in self.slices]
        )
        """Whether every slice is of this node only."""
        self.node_class: NodeClass | None = None
        """Set when the state settles."""
        self.results: dict[tuple[int, str], DeviceResult] = {}
        """Results of allocations for devices that are taken whole, by device and request; the next allocation uses them again."""
        self._crowded: tuple[int, tuple[int, ...]] = -1, ()
        self._ids: dict[int, DeviceId] = {}
        self._own: Memo[SelectorTexts, Selected] | None = None
        self._memos: dict[Topic[Any, Any], Memo[Any, Any]] = {}
        self._local: NodeSelector | None = None
        self._tolerated: Memo[tuple[Toleration, ...], int] = Memo(MOST_LOCAL)
        self._charges: Memo[
            tuple[int, tuple[tuple[str, Quantity], ...]], dict[str, Quantity] | ErrorCause | None
        ] = Memo(MOST_CHARGES)
        self._attribute_indexes: Memo[str, AttributeIndex] = Memo(MOST_LOCAL)

    @property
    def unclassifiable(self) -> bool:
        """Whether the node is alone in its class: its messages name pools, or its devices have capacity to share."""
        return (
            self.incomplete is not None
            or self.invalid is not None
            or bool(self.limited)
            or any(piece.template.unsupported for piece in self.slices)
        )

    @property
    def group_of(self) -> Mapping[int, tuple[int, int]]:
        """Return (group, position in the group) by device."""
        return self.template.group_of

    @property
    def neighbours(self) -> Neighbours:
        """Return which devices sit together."""
        kept = self.node_class
        if kept is None:
            return self._find_neighbours()
        if kept.neighbours is None:
            kept.neighbours = kept.table("neighbours", NEIGHBOUR_ATTRIBUTES, self._find_neighbours)
        return kept.neighbours

    def _find_neighbours(self) -> Neighbours:
        rows = [tuple(self.values(attribute).values()) for attribute in NEIGHBOUR_ATTRIBUTES]
        return Neighbours(self.base, rows, [group.mask for group in self.groups])

    @property
    def crowded(self) -> tuple[int, ...]:
        """Return the devices of the most crowded places, then those of the next."""
        free = self.base & ~self.exclusive
        kept = self._crowded
        if kept[0] != free:
            # Every shape of claim asks, and most nodes stand as they did.
            kept = self._crowded = free, self.neighbours.order(free)
        return kept[1]

    @property
    def local(self) -> NodeSelector:
        """Return the selector that pins to this node."""
        if self._local is None:
            self._local = NodeSelector.of_name(self.node.name)
        return self._local

    def piece_of(self, index: int) -> Slice:
        """Return the slice that publishes a device."""
        return self.slices[self.template.slice_of[index]].slice

    def id_of(self, index: int) -> DeviceId:
        """Return the name that allocations use for a device."""
        found = self._ids.get(index)
        if found is None:
            device = self.devices[index]
            found = self._ids[index] = DeviceId(device.driver, device.pool, device.name)
        return found

    def selected(self, alternative: Alternative, selectors: SelectorLookup) -> Selected:
        """Return the devices that pass the class's and the request's selectors, and those on which one fails."""
        texts = alternative.class_selectors, alternative.selectors
        shared = self.node_class
        found = shared.selected.get(texts) if shared is not None else None
        if found is None:
            found = self._own.get(texts) if self._own is not None else None
        return found if found is not None else self._select(texts, selectors)

    def _select(self, texts: SelectorTexts, selectors: SelectorLookup) -> Selected:
        shared = self.node_class
        reads = [selectors(text).reads for row in texts for text in row]
        if shared is not None and shared.covers(reads):
            names = sorted({name for read in reads for _, name in read or ()})
            found = shared.table(
                ("selected", texts), names, lambda: select(self.slices, self.template, texts, selectors)
            )
            # Errors name devices, so they are kept apart.
            if not found[1]:
                shared.selected[texts] = found
                return found
        found = select(self.slices, self.template, texts, selectors)
        if self._own is None:
            self._own = Memo(MOST_SELECTIONS)
        self._own[texts] = found
        return found

    def prefixes(self, alternative: Alternative, selectors: SelectorLookup) -> list[int]:
        """Return the devices left after each selector, the class's first: for explanations."""
        texts = (*alternative.class_selectors, *alternative.selectors)
        masks = [0] * len(texts)
        for piece, (_, offset, visible) in zip(self.slices, self.template.slices, strict=True):
            left = visible
            for number, text in enumerate(texts):
                left, _ = piece.matches(text, left, selectors)
                masks[number] |= left << offset
        return masks

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> int:
        """Return the devices whose taints these tolerations cover."""
        if not self.template.tainted:
            return self.base
        found = self._tolerated.get(tolerations)
        if found is None:
            found = self.base & ~self.template.tainted
            for index, taints in self.template.taints.items():
                if untolerated(taints, tolerations) is None:
                    found |= 1 << index
            self._tolerated[tolerations] = found
        return found

    def charge(self, index: int, alternative: Alternative) -> dict[str, Quantity] | ErrorCause | None:
        """Return what the request takes of the device's capacities; None if it cannot serve, or why it is absurd."""
        key = index, alternative.capacity
        if key not in self._charges:
            try:
                self._charges[key] = charge(alternative.amounts, self.devices[index], self.features)
            except BrokenInput as error:
                reason = f"checking capacity for device {self.devices[index].id}: {error}"
                self._charges[key] = ErrorCause("request", reason, "capacity")
        return self._charges[key]

    def roomy(self, index: int, taken: Mapping[str, Quantity], *, beside: bool = True) -> bool:
        """Say whether the amounts fit, beside the shares that are held or in the whole device."""
        return fits(taken, self.devices[index], self.used.get(index, {}) if beside else {})

    def values(self, attribute: str) -> Mapping[AttributeValue, int]:
        """Return the devices by their values of an attribute; a list puts its device under every entry."""
        return self.attribute_index(attribute).values

    def attribute_index(self, attribute: str) -> AttributeIndex:
        """Return the devices by value, and the values by device, of an attribute."""
        shared = self.node_class
        if shared is not None and not shared.shares(attribute):
            shared = None
        kept = shared.attribute_indexes if shared is not None else self._attribute_indexes
        found = kept.get(attribute)
        if found is None:
            make = partial(AttributeIndex, attribute, self.devices, self.base, self.features)
            found = kept[attribute] = (
                shared.table("attribute", (attribute,), make) if shared is not None else make()
            )
        return found
