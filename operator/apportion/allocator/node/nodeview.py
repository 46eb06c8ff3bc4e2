"""NodeView: the devices of one node in upstream's order, and the ones that a request may take.

In: the pools of the node. Out: bit masks over the node's devices, counter groups with their states, selector results,
capacity charges. A view is rebuilt when slices change; changes of holdings update it (`NodeOccupancy`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from apportion.allocator.memo import Memo, Memos, Topic, keep
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES, Neighbours
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.occupancy import NodeOccupancy
from apportion.allocator.node.selection import Selected, SelectorTexts, select
from apportion.allocator.node.template import NodeTemplates, pool_on_node
from apportion.allocator.rules.attributes import AttributeIndex, AttributeValue
from apportion.allocator.rules.capacity import charge, fits
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.pools import NodeInfo, PoolView
from apportion.allocator.rules.query import Alternative, ErrorCause, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.rules.slices import SliceView
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.selection import NodeSelector
from apportion.dra.slice import Slice
from apportion.dra.taint import Toleration, untolerated
from apportion.errors import BrokenInput

MOST_LOCAL = 64
"""Toleration masks kept per node, attribute indexes per node or class."""
MOST_RESULTS = 256
"""Results of allocations that a node keeps."""
MOST_SELECTIONS = 256
"""Selector results kept per node, where its class cannot keep them."""
MOST_CHARGES = 4096
"""Capacity charges kept per class, and per node where its class cannot keep them."""

Charge: TypeAlias = dict[str, Quantity] | ErrorCause | None
"""What a request consumes of a device's capacities; None where the device cannot serve it; or the error."""

CHARGES: Topic[tuple[int, tuple[tuple[str, Quantity], ...]], Charge] = Topic("charges", MOST_CHARGES)
TOLERATING: Topic[tuple[Toleration, ...], int] = Topic("tolerating", MOST_LOCAL)
INDEXES: Topic[str, AttributeIndex] = Topic("attribute indexes", MOST_LOCAL)


class NodeView(Memos, NodeOccupancy):
    """A node's devices with what selectors, taints, capacity and counters leave of them."""

    __slots__ = (
        "_fewest_free",
        "_ids",
        "_local",
        "_own_selected",
        "all_node_local",
        "features",
        "incomplete",
        "invalid",
        "memos",
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
        pools_on_node = [pool_on_node(pool, views, node, features) for pool in usable]
        self.slices = tuple([row.view for pool in pools_on_node for row in pool.slices])
        devices = [device for piece in self.slices for device in piece.slice.devices]
        template = templates.of(pools_on_node)
        indexes_by_name = {
            pool.id: templates.index_by_name(devices, template.visible & mask)
            for pool, mask in zip(usable, template.pool_masks, strict=True)
        }
        super().__init__(template, devices, indexes_by_name)
        self.all_node_local = all(
            availability.node is not None and not availability.per_device
            for availability in [piece.slice.availability for piece in self.slices]
        )
        """Whether every slice is of this node only."""
        self.node_class: NodeClass | None = None
        """Set by the state before the next allocation."""
        self.results: Memo[tuple[int, str], DeviceResult] = Memo(MOST_RESULTS)
        """Allocation results of whole devices by (device, request), node_class by later allocations."""
        self._fewest_free: tuple[int, tuple[int, ...]] = -1, ()
        self._ids: dict[int, DeviceId] = {}
        self._own_selected: Memo[SelectorTexts, Selected] | None = None
        self.memos: dict[Topic[Any, Any], dict[Any, Any]] = {}
        self._local: NodeSelector | None = None

    @property
    def unclassifiable(self) -> bool:
        """Whether the node needs a class of its own: its errors name pools or attributes."""
        return (
            self.incomplete is not None
            or self.invalid is not None
            or any(piece.template.unsupported for piece in self.slices)
        )

    @property
    def group_of(self) -> Mapping[int, tuple[int, int]]:
        """(group, position in the group) by device."""
        return self.template.group_of

    @property
    def neighbours(self) -> Neighbours:
        """The neighbourhoods of the node."""
        node_class = self.node_class
        if node_class is None:
            return self._find_neighbours()
        if node_class.neighbours is None:
            node_class.neighbours = node_class.table(
                "neighbours", NEIGHBOUR_ATTRIBUTES, self._find_neighbours
            )
        return node_class.neighbours

    def _find_neighbours(self) -> Neighbours:
        rows = [tuple(self.values(attribute).values()) for attribute in NEIGHBOUR_ATTRIBUTES]
        return Neighbours(self.base, rows, [group.mask for group in self.groups])

    @property
    def crowded(self) -> tuple[int, ...]:
        """Device masks of the neighbourhoods, those with the fewest free devices first."""
        free = self.base & ~self.exclusive
        kept = self._fewest_free
        if kept[0] != free:
            # Every query reads it, and most nodes have not changed since.
            kept = self._fewest_free = free, self.neighbours.order(free)
        return kept[1]

    @property
    def local(self) -> NodeSelector:
        """The node selector of allocations on this node."""
        if self._local is None:
            self._local = NodeSelector.of_name(self.node.name)
        return self._local

    def piece_of(self, index: int) -> Slice:
        """Return the slice that publishes a device."""
        return self.slices[self.template.slice_of[index]].slice

    def id_of(self, index: int) -> DeviceId:
        """Return the (driver, pool, name) of a device."""
        found = self._ids.get(index)
        if found is None:
            device = self.devices[index]
            found = self._ids[index] = DeviceId(device.driver, device.pool, device.name)
        return found

    def selected(self, alternative: Alternative, selectors: SelectorLookup) -> Selected:
        """Return the devices that pass the selectors of class and request, and the errors by device."""
        texts = alternative.class_selectors, alternative.selectors
        node_class = self.node_class
        found = node_class.selected.get(texts) if node_class is not None else None
        if found is None:
            found = self._own_selected.get(texts) if self._own_selected is not None else None
        return found if found is not None else self._select(texts, selectors)

    def matched(self, query: Query, selectors: SelectorLookup) -> tuple[int, ...] | None:
        """Return the devices that each alternative matches; None where a selector fails, since its error names the selector."""
        masks: list[int] = []
        for alternative in query.alternatives:
            mask, errors = self.selected(alternative, selectors)
            if errors:
                return None
            masks.append(mask)
        return tuple(masks)

    def _select(self, texts: SelectorTexts, selectors: SelectorLookup) -> Selected:
        node_class = self.node_class
        reads = [selectors(text).reads for row in texts for text in row]
        if node_class is not None and node_class.covers(reads):
            names = sorted({name for read in reads for _, name in read or ()})
            found = node_class.table(
                ("selected", texts), names, lambda: select(self.slices, self.template, texts, selectors)
            )
            # Errors name devices, so each node keeps its own.
            if not found[1]:
                return node_class.select(texts, found)
        found = select(self.slices, self.template, texts, selectors)
        if self._own_selected is None:
            self._own_selected = Memo(MOST_SELECTIONS)
        self._own_selected[texts] = found
        return found

    def prefixes(self, alternative: Alternative, selectors: SelectorLookup) -> list[int]:
        """Return the devices left after each selector, those of the class first. Only explanations use it."""
        texts = (*alternative.class_selectors, *alternative.selectors)
        masks = [0] * len(texts)
        for piece, (_, offset, visible) in zip(self.slices, self.template.slices, strict=True):
            left = visible
            for number, text in enumerate(texts):
                left, _ = piece.matches(text, left, selectors)
                masks[number] |= left << offset
        return masks

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> int:
        """Return the devices whose taints are all tolerated."""
        if not self.template.tainted:
            return self.base
        kept = self.memo(TOLERATING)
        found = kept.get(tolerations)
        if found is None:
            found = self.base & ~self.template.tainted
            for index, taints in self.template.taints.items():
                if untolerated(taints, tolerations) is None:
                    found |= 1 << index
            keep(kept, tolerations, found, TOLERATING.most)
        return found

    def charge(self, index: int, alternative: Alternative) -> Charge:
        """Return what the request consumes of the device's capacities; None if the device cannot serve it; or the error."""
        key = index, alternative.capacity
        node_class = self.node_class
        # All nodes of a class have the same capacities and request policies on limited devices.
        shared = node_class is not None and bool(self.limited >> index & 1)
        owner: Memos = node_class if node_class is not None and shared else self
        charges = owner.memo(CHARGES)
        if key in charges:
            return charges[key]
        try:
            found: Charge = charge(alternative.amounts, self.devices[index], self.features)
        except BrokenInput as error:
            reason = f"checking capacity for device {self.devices[index].id}: {error}"
            # An error names the node's own device.
            return ErrorCause("request", reason, "capacity")
        return keep(charges, key, found, CHARGES.most)

    def roomy(self, index: int, taken: Mapping[str, Quantity], *, with_held: bool = True) -> bool:
        """Say whether the amounts fit: with `with_held` in addition to the shares held, else in the empty device."""
        return fits(taken, self.devices[index], self.used.get(index, {}) if with_held else {})

    def overdrawn(self, index: int) -> bool:
        """Say whether more is held of the device's capacity, or of a counter that it consumes, than there is."""
        device, used = self.devices[index], self.used.get(index, {})
        if any(used.get(name, 0) > capacity.value.nano for name, capacity in device.capacity.items()):
            return True
        place = self.group_of.get(index)
        if place is None:
            return False
        group = self.groups[place[0]]
        return any(group.state.left[counter] < 0 for counter, _ in group.group_type.needs[place[1]])

    def compatible(self, index: int) -> bool:
        """Say whether the device may be in use together with those that consume the same counters now."""
        group, local = self.group_of.get(index, (None, 0))
        return group is None or self.groups[group].group_type.admits(self.groups[group].state.left, local)

    def values(self, attribute: str) -> Mapping[AttributeValue, int]:
        """Return device masks by value of an attribute; a device with a list is in the mask of every entry."""
        return self.attribute_index(attribute).values

    def attribute_index(self, attribute: str) -> AttributeIndex:
        """Return the index of an attribute: devices by value, and values by device."""
        node_class = self.node_class
        if node_class is not None and not node_class.shares(attribute):
            node_class = None
        kept = node_class.memo(INDEXES) if node_class is not None else self.memo(INDEXES)
        found = kept.get(attribute)
        if found is None:
            make = partial(AttributeIndex, attribute, self.devices, self.base, self.features)
            made = node_class.table("attribute", (attribute,), make) if node_class is not None else make()
            found = keep(kept, attribute, made, INDEXES.most)
        return found
