"""One node as the allocator sees it: its devices in order, and what is left of them.

In: the pools of the node and the ledger. Out: bit masks over the node's devices, counter groups and their states, the
devices that a request may take. A view is built when its slices change and follows what is held.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from apportion.allocator.equivalence.nodeclass import NodeClass
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES, Neighbours
from apportion.allocator.node.occupancy import Occupancy
from apportion.allocator.node.poolonnode import pool_on_node
from apportion.allocator.node.selection import LocalSelections, Selected
from apportion.allocator.node.template import NodeTemplates
from apportion.allocator.rules.attributes import AttributeIndex, AttributeValue
from apportion.allocator.rules.capacity import charge, fits
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.nodeerror import ErrorCause
from apportion.allocator.rules.pools import NodeInfo, PoolView
from apportion.allocator.rules.query import Alternative
from apportion.allocator.rules.selectors import SelectorResults
from apportion.allocator.rules.slices import SliceView
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import Device, DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.selection import NodeSelector
from apportion.dra.slice import Slice
from apportion.dra.taint import Toleration, untolerated
from apportion.errors import BrokenInput

if TYPE_CHECKING:
    from apportion.allocator.rules.query import Query
    from apportion.allocator.search.singleplan import SinglePlan

SelectorLookup: TypeAlias = Callable[[str], SelectorResults]

MOST_PLANS = 64
"""Claims whose plans or tolerations a node keeps for itself."""
MOST_CHARGES = 4096
"""Amounts that a node keeps."""


class NodeView(Occupancy):
    """A node's devices and what is left of them."""

    __slots__ = (
        "_charges",
        "_crowded",
        "_ids",
        "_local",
        "_own",
        "_rows",
        "_tolerated",
        "devices",
        "features",
        "homely",
        "incomplete",
        "invalid",
        "kind",
        "pieces",
        "place",
        "plans",
        "results",
    )

    def __init__(
        self,
        place: NodeInfo,
        pools: Sequence[PoolView],
        pieces: Callable[[Slice], SliceView],
        anatomies: NodeTemplates,
        features: Features,
    ) -> None:
        self.place = place
        self.features = features
        usable = [pool for pool in pools if pool.usable]
        usable.sort(key=lambda pool: (pool.binds, pool.id.driver, pool.id.name))
        self.incomplete = next((pool.id for pool in pools if pool.incomplete), None)
        self.invalid = next((pool for pool in pools if pool.invalid), None)
        parts = [pool_on_node(pool, pieces, place, features) for pool in usable]
        self.pieces = tuple([cut.piece for one in parts for cut in one.cuts])
        self.devices: list[Device] = []
        for piece in self.pieces:
            self.devices += piece.slice.devices
        anatomy = anatomies.of(parts)
        rolls = {
            pool.id: anatomies.roll(self.devices, anatomy.base & mask)
            for pool, mask in zip(usable, anatomy.pool_masks, strict=True)
        }
        super().__init__(anatomy, rolls)
        self.homely = all(
            where.node is not None and not where.per_device
            for where in [piece.slice.availability for piece in self.pieces]
        )
        """Whether every slice is of this node only."""
        self.kind: NodeClass | None = None
        """Set once the kinds of nodes are looked at."""
        self.results: dict[tuple[int, str], DeviceResult] = {}
        """What allocations say of devices that are taken whole, by the request's name; kept for the next one."""
        self._crowded: tuple[int, tuple[int, ...]] = -1, ()
        self._ids: dict[int, DeviceId] = {}
        self._own: LocalSelections | None = None
        self.plans: dict[Query, SinglePlan | None] = {}
        """What claims for one device may take, where the kind cannot tell."""
        self._local: NodeSelector | None = None
        self._tolerated: dict[tuple[Toleration, ...], int] | None = None
        self._charges: dict[
            tuple[int, tuple[tuple[str, Quantity], ...]], dict[str, Quantity] | ErrorCause | None
        ] = {}
        self._rows: dict[str, AttributeIndex] = {}

    @property
    def peculiar(self) -> bool:
        """Whether messages or shares make the node unlike any other."""
        return (
            self.incomplete is not None
            or self.invalid is not None
            or bool(self.limited)
            or any(piece.pattern.unsupported for piece in self.pieces)
        )

    @property
    def group_of(self) -> Mapping[int, tuple[int, int]]:
        """Return (group, position in the group) by device."""
        return self.anatomy.group_of

    @property
    def layout(self) -> Neighbours:
        """Return which devices sit together."""
        kept = self.kind
        if kept is None:
            return Neighbours(self)
        if kept.layout is None:
            kept.layout = kept.table("layout", NEIGHBOUR_ATTRIBUTES, lambda: Neighbours(self))
        return kept.layout

    @property
    def crowded(self) -> tuple[int, ...]:
        """Return the devices of the most crowded places, then those of the next."""
        free = self.base & ~self.exclusive
        kept = self._crowded
        if kept[0] != free:
            # Every shape of claim asks, and most nodes stand as they did.
            kept = self._crowded = free, self.layout.order(free)
        return kept[1]

    @property
    def local(self) -> NodeSelector:
        """Return the selector that pins to this node."""
        if self._local is None:
            self._local = NodeSelector.of_name(self.place.name)
        return self._local

    def remember(self, meaning: "Query", plan: "SinglePlan | None") -> "SinglePlan | None":
        """Keep what a claim for one device may take here."""
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
        self.plans[meaning] = plan
        return plan

    def piece_of(self, index: int) -> Slice:
        """Return the slice that publishes a device."""
        return self.pieces[self.anatomy.cut_of[index]].slice

    def id_of(self, index: int) -> DeviceId:
        """Return the name that allocations use for a device."""
        found = self._ids.get(index)
        if found is None:
            device = self.devices[index]
            found = self._ids[index] = DeviceId(device.driver, device.pool, device.name)
        return found

    def selected(self, want: Alternative, answers: SelectorLookup) -> Selected:
        """Return the devices that pass the class's and the request's selectors, and those on which one fails."""
        key = want.class_selectors, want.selectors
        kind = self.kind
        found = kind.selected.get(key) if kind is not None else None
        if found is not None:
            return found
        if self._own is None:
            self._own = LocalSelections()
        return self._own.of(key, self, answers)

    def prefixes(self, want: Alternative, answers: SelectorLookup) -> list[int]:
        """Return the devices left after each selector, the class's first: for explanations."""
        texts = (*want.class_selectors, *want.selectors)
        masks = [0] * len(texts)
        for piece, (_, offset, visible) in zip(self.pieces, self.anatomy.cuts, strict=True):
            left = visible
            for number, text in enumerate(texts):
                left, _ = piece.matches(text, left, answers)
                masks[number] |= left << offset
        return masks

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> int:
        """Return the devices whose taints these tolerations cover."""
        if not self.anatomy.tainted:
            return self.base
        if self._tolerated is None or len(self._tolerated) > MOST_PLANS:
            self._tolerated = {}
        found = self._tolerated.get(tolerations)
        if found is None:
            found = self.base & ~self.anatomy.tainted
            for index, taints in self.anatomy.taints.items():
                if untolerated(taints, tolerations) is None:
                    found |= 1 << index
            self._tolerated[tolerations] = found
        return found

    def charge(self, index: int, want: Alternative) -> dict[str, Quantity] | ErrorCause | None:
        """Return what the request takes of the device's capacities; None if it cannot serve, or why it is absurd."""
        key = index, want.capacity
        if key not in self._charges:
            if len(self._charges) >= MOST_CHARGES:
                self._charges.clear()
            try:
                self._charges[key] = charge(want.amounts, self.devices[index], self.features)
            except BrokenInput as error:
                reason = f"checking capacity for device {self.devices[index].id}: {error}"
                self._charges[key] = ErrorCause("request", reason, "capacity")
        return self._charges[key]

    def roomy(self, index: int, taken: Mapping[str, Quantity], *, beside: bool = True) -> bool:
        """Say whether the amounts fit, beside the shares that are held or in the whole device."""
        return fits(taken, self.devices[index], self.used.get(index, {}) if beside else {})

    def values(self, attribute: str) -> Mapping[AttributeValue, int]:
        """Return the devices by what they hold in an attribute; a list puts its device under every entry."""
        return self.rows(attribute).values

    def rows(self, attribute: str) -> AttributeIndex:
        """Return who holds what in an attribute."""
        kind = self.kind
        shared = kind is not None and kind.shares(attribute)
        kept = kind.rows if kind is not None and shared else self._rows
        found = kept.get(attribute)
        if found is None:
            make = partial(AttributeIndex, attribute, self.devices, self.base, self.features)
            found = kind.table("rows", (attribute,), make) if kind is not None and shared else make()
            if len(kept) >= MOST_PLANS:
                kept.clear()
            kept[attribute] = found
        return found
