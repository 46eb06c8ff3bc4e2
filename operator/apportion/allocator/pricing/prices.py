"""DemandPrices: values of devices under one demand mix.

In: a mix. Out, per node class: a value for each state of its counter groups, the whole devices that each
entry of the mix could take, and the device sets that requests choose from. Everything is computed from
the published counters and the devices that the mix's selectors accept; no device model is known by name.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo, Topic, keep
from apportion.allocator.node.counters import (
    LOSS_WEIGHT,
    CheapestDevices,
    GroupOccupancy,
    GroupState,
    GroupType,
)
from apportion.allocator.node.nodeclass import ClassGroup, NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT, CutPrices
from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.places import Rooms, part, room_for_places, several
from apportion.allocator.rules.query import Alternative
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.singleplan import SinglePlan

MOST_MIXES = 32
"""Mixes whose prices a node class keeps; older mixes are out of use."""

MOST_KEPT = 8192
"""Node classes, groups and cut states whose prices are kept."""

Masks = tuple[int, ...]


class CutStatesCache:
    """Cut states by group type and pieces; they outlive the prices."""

    def __init__(self) -> None:
        self._kept: Memo[tuple[GroupType, Vector, Masks], CutStates] = Memo(MOST_KEPT)

    def of(self, group_type: GroupType, full: Vector, pieces: Masks) -> CutStates:
        """Return the one object for these pieces, each a mask of a group's devices."""
        key = group_type, full, pieces
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = CutStates(
                full, [_vectors(group_type, len(full), mask) for mask in pieces]
            )
        return found


class GroupPrices:
    """Values of one group's states under the mix."""

    __slots__ = ("_bests", "_cut_prices", "_fresh", "_worth")

    def __init__(self, cut_prices: CutPrices | None, fresh: GroupState) -> None:
        self._cut_prices = cut_prices
        self._fresh = fresh
        self._worth: dict[GroupState, int] = {}
        self._bests: Memo[int, dict[GroupOccupancy, CheapestDevices]] = Memo(MOST_KEPT)

    def worth(self, state: GroupState) -> int:
        """Return the value of a state, `UNIT` for a whole device."""
        found = self._worth.get(state)
        if found is None:
            found = keep(self._worth, state, self._value(state), MOST_KEPT)
        return found

    def _value(self, state: GroupState) -> int:
        known = self._cut_prices.worth(state.left) if self._cut_prices is not None else None
        if known is not None:
            return known
        # Without demand, or with too many states, every placement counts, large ones more.
        return state.worth * UNIT // max(self._fresh.worth, 1)

    def bests(self, mask: int) -> dict[GroupOccupancy, CheapestDevices]:
        """Return the kept results of `best` for these devices; hot paths read them directly."""
        found = self._bests.get(mask)
        if found is None:
            found = self._bests[mask] = {}
        return found

    def best(self, occupancy: GroupOccupancy, mask: int) -> CheapestDevices:
        """Return the open devices of the mask that lose the least value, with the loss and the group's value in one number."""
        known = self.bests(mask)
        found = known.get(occupancy)
        if found is None:
            cheapest = self._cheapest(occupancy.state, mask & occupancy.open)
            found = keep(known, occupancy, cheapest, MOST_KEPT)
        return found

    def _cheapest(self, state: GroupState, open_: int) -> CheapestDevices:
        if not open_:
            return ()
        before = self.worth(state)
        losses = [(before - self.worth(state.after(local)), local) for local in bits(open_)]
        least = min(losses)[0]
        return least * LOSS_WEIGHT + before, tuple([local for lost, local in losses if lost == least])


Row: TypeAlias = tuple[int, int, dict[GroupOccupancy, CheapestDevices], GroupPrices]
"""Group number, mask of its devices that may be taken, kept results by occupancy, prices."""

Priced: TypeAlias = tuple[tuple[Row, ...], ...]
"""The rows of each alternative of a plan."""


class WholeDemand(NamedTuple):
    """The whole devices of one node that an entry of the mix could take."""

    mask: int
    number: int
    """Devices that one claim takes."""
    weight: int


class NodePrices:
    """Prices on the nodes of one class."""

    __slots__ = ("by_group", "priced", "rooms", "set_masks", "total", "whole_demands")

    def __init__(
        self, by_group: Sequence[GroupPrices], demands: Sequence[WholeDemand], sets: Masks, rooms: Rooms
    ) -> None:
        self.by_group = tuple(by_group)
        self.whole_demands = tuple(demands)
        self.rooms = rooms
        """Room for claims of several shared devices."""
        self.priced: dict[SinglePlan, Priced] = {}
        """Rows of queries for one device."""
        self.set_masks = sets
        """Per set of `DemandPrices.sets` the node's devices in it."""
        self.total = sum(each.weight * (each.mask.bit_count() // each.number) for each in self.whole_demands)
        """Weighted number of whole-device claims that an empty node can serve."""

    def room(self, free: int) -> int:
        """Return the part of `total` that the free devices can serve, `UNIT` for all of it."""
        if not self.total:
            return 0
        left = 0
        for mask, number, weight in self.whole_demands:
            left += weight * ((mask & free).bit_count() // number)
        return left * UNIT // self.total


class DemandPrices:
    """The prices of one mix."""

    def __init__(self, mix: DemandMix, cut_states: CutStatesCache, selectors: SelectorLookup) -> None:
        self.mix = mix
        self._cut_states = cut_states
        self.selectors = selectors
        self._group_prices: Memo[tuple[GroupType, Vector, Masks], GroupPrices] = Memo(MOST_KEPT)
        self._by_group: Memo[ClassGroup, NodePrices] = Memo(MOST_KEPT)
        """By the classes with equal values of the attributes that the mix reads."""
        self._priced: Memo[object, Priced] = Memo(MOST_KEPT)
        """By alternatives and group prices: shared by plans of several classes."""
        self._reads: dict[frozenset[str], tuple[str, ...] | None] = {}
        """Attributes that the mix's selectors read, by the per-node attributes of the class; None: any."""
        self.sets: dict[object, int] = {}
        """Numbers of the device sets that requests choose from, by selectors and tolerations."""
        self.several = several(mix)
        """Numbers of the requests for several devices."""
        self.parts: dict[Alternative, float] = {}
        """The part of a shared device that a request takes, on the first class where it matches one."""
        for entry in mix:
            if entry.alternative is not None:
                self.sets.setdefault(_set_key(entry.alternative), len(self.sets))

    def set_of(self, alternative: Alternative | None) -> int | None:
        """Return the number of the set that a request chooses from; None if the mix does not have it."""
        return None if alternative is None else self.sets.get(_set_key(alternative))

    def of(self, view: NodeView) -> NodePrices:
        """Return the prices on a node."""
        node_class = view.node_class
        if node_class is None:
            return self._make(view)
        kept: dict[DemandPrices, NodePrices] = node_class.memos.get(PRICES) or node_class.memo(PRICES)
        found = kept.get(self)
        return keep(kept, self, self._of_class(view, node_class), MOST_MIXES) if found is None else found

    def price(self, plan: SinglePlan, node_prices: NodePrices) -> Priced:
        """Return the rows of a plan under these node prices."""
        key = plan.alternatives, node_prices.by_group
        found = self._priced.get(key)
        if found is None:
            found = self._priced[key] = tuple(
                [_rows(alternative.groups, node_prices.by_group) for alternative in plan.alternatives]
            )
        return keep(node_prices.priced, plan, found, MOST_KEPT)

    def _of_class(self, view: NodeView, node_class: NodeClass) -> NodePrices:
        """Return the one object for all classes of a group over the attributes read."""
        names = self.attributes_read(node_class)
        group = node_class.group_over(names) if names is not None else None
        if group is None:
            return self._make(view)
        found = self._by_group.get(group)
        if found is None:
            found = self._by_group[group] = self._make(view)
        return found

    def attributes_read(self, node_class: NodeClass) -> tuple[str, ...] | None:
        """Return the attributes that the mix's selectors read on nodes of the class, in order; None: it may be any."""
        per_node = node_class.per_node
        if per_node not in self._reads:
            self._reads[per_node] = self._find_attributes_read(node_class)
        return self._reads[per_node]

    def _find_attributes_read(self, node_class: NodeClass) -> tuple[str, ...] | None:
        names: set[str] = set()
        for entry in self.mix:
            if entry.alternative is None:
                return None
            reads = [
                self.selectors(text).reads
                for text in (*entry.alternative.class_selectors, *entry.alternative.selectors)
            ]
            # Entries that read per-node attributes match nothing, see `DemandEntry.mask`.
            if node_class.covers(reads):
                names.update([name for read in reads for _, name in read or ()])
        return tuple(sorted(names))

    def _make(self, view: NodeView) -> NodePrices:
        masks = [entry.mask(view, self.selectors) for entry in self.mix]
        by_group = [self._prices_of_group(view, number, masks) for number in range(len(view.groups))]
        weights = Counter[tuple[int, int]]()
        set_masks = [0] * len(self.sets)
        for entry, mask in zip(self.mix, masks, strict=True):
            whole = mask & view.plain & ~view.shareable
            alternative = entry.alternative
            if (shared := mask & view.plain & view.shareable) and alternative is not None:
                set_masks[self.sets[_set_key(alternative)]] |= shared
                self.parts.setdefault(alternative, part(view, shared, alternative))
            if whole and alternative is not None:
                weights[whole, alternative.count] += entry.weight * alternative.count
                set_masks[self.sets[_set_key(alternative)]] |= whole
        demands = [WholeDemand(mask, count, weight) for (mask, count), weight in weights.items()]
        return NodePrices(
            by_group, demands, tuple(set_masks), room_for_places(view, self.several, self.selectors)
        )

    def _prices_of_group(self, view: NodeView, number: int, masks: Sequence[int]) -> GroupPrices:
        group = view.groups[number]
        demand: dict[int, int] = {}
        for entry, mask in zip(self.mix, masks, strict=True):
            local = group.gather(mask)
            if local:
                # Entries that match the same devices are merged: the linear program has no equal columns.
                demand[local] = demand.get(local, 0) + entry.weight * entry.count
        pieces = tuple(sorted(demand))
        key = group.group_type, group.totals, pieces
        found = self._group_prices.get(key)
        if found is None:
            found = self._group_prices[key] = self._make_group_prices(
                key, group.fresh, [demand[piece] for piece in pieces]
            )
        return found

    def _make_group_prices(
        self, key: tuple[GroupType, Vector, Masks], fresh: GroupState, demand: Sequence[int]
    ) -> GroupPrices:
        if not demand:
            return GroupPrices(None, fresh)
        states = self._cut_states.of(*key)
        if states.full == NOWHERE:
            return GroupPrices(None, fresh)
        cut_prices = CutPrices(states, demand)
        return GroupPrices(cut_prices if any(cut_prices.prices) else None, fresh)


PRICES: Topic[DemandPrices, NodePrices] = Topic("prices", MOST_MIXES)


def _rows(groups: Sequence[tuple[int, int]], by_group: Sequence[GroupPrices]) -> tuple[Row, ...]:
    return tuple([(number, mask, by_group[number].bests(mask), by_group[number]) for number, mask in groups])


def _set_key(alternative: Alternative) -> object:
    return alternative.class_selectors, alternative.selectors, alternative.tolerations


def _vectors(group_type: GroupType, size: int, mask: int) -> list[Vector]:
    """Return the amount of each counter that each device of the mask takes."""
    vectors = []
    for local in bits(mask):
        amounts = [0] * size
        for counter, amount in group_type.needs[local]:
            amounts[counter] = amount
        vectors.append(tuple(amounts))
    return vectors
