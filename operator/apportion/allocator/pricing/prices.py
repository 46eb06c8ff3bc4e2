"""What nodes are worth under one mix.

In: a mix. Out, per kind of node: a value for every state of its groups of shared counters, the places that demanded
numbers of whole devices have on it, and how far the devices that only some claims can use are needed. Everything is
computed from the published counters and what the mix's selectors accept; no model is known by name.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo, Topic
from apportion.allocator.node.counters import (
    LOSS_WEIGHT,
    CheapestDevices,
    GroupOccupancy,
    GroupState,
    GroupType,
)
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT, CutPrices
from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.rules.query import Alternative
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.singleplan import SinglePlan

MOST_MIXES = 32
"""Outlooks whose node_prices of it a kind keeps; older ones belong to mixes that nobody asks for any more."""

MOST_KEPT = 8192
"""Kinds, groups and boards whose prices are kept."""

Masks = tuple[int, ...]


class CutStatesCache:
    """The boards seen so far: they outlive the prices."""

    def __init__(self) -> None:
        self._kept: Memo[tuple[GroupType, Vector, Masks], CutStates] = Memo(MOST_KEPT)

    def of(self, group_type: GroupType, full: Vector, pieces: Masks) -> CutStates:
        """Return the one object for these pieces, each a bit mask of the devices of a group."""
        key = group_type, full, pieces
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = CutStates(
                full, [_vectors(group_type, len(full), mask) for mask in pieces]
            )
        return found


class GroupPrices:
    """Values of one group's states under the mix. States are remembered by identity."""

    __slots__ = ("_bests", "_cut_prices", "_fresh", "_worth")

    def __init__(self, cut_prices: CutPrices | None, fresh: GroupState) -> None:
        self._cut_prices = cut_prices
        self._fresh = fresh
        self._worth: Memo[GroupState, int] = Memo(MOST_KEPT)
        self._bests: Memo[int, Memo[GroupOccupancy, CheapestDevices]] = Memo(MOST_KEPT)

    def worth(self, state: GroupState) -> int:
        """Return what a state is worth, `UNIT` for a whole device."""
        found = self._worth.get(state)
        if found is None:
            found = self._worth[state] = self._value(state)
        return found

    def _value(self, state: GroupState) -> int:
        known = self._cut_prices.worth(state.left) if self._cut_prices is not None else None
        if known is not None:
            return known
        # Nobody asked for these yet, or there are too many states: every placement counts, large ones more.
        return state.worth * UNIT // max(self._fresh.worth, 1)

    def bests(self, mask: int) -> Memo[GroupOccupancy, CheapestDevices]:
        """Return what `best` answered for these devices: a table to look at first."""
        found = self._bests.get(mask)
        if found is None:
            # Who took one of these before goes on with it; it only costs.
            found = self._bests[mask] = Memo(MOST_KEPT)
        return found

    def best(self, occupancy: GroupOccupancy, mask: int) -> CheapestDevices:
        """Return the least worth lost by taking one of the devices, and the worth around it, in one number; and which."""
        known = self.bests(mask)
        found = known.get(occupancy)
        if found is None:
            found = known[occupancy] = self._least(occupancy.state, mask & occupancy.open)
        return found

    def _least(self, state: GroupState, open_: int) -> CheapestDevices:
        if not open_:
            return ()
        before = self.worth(state)
        losses = [(before - self.worth(state.after(local)), local) for local in bits(open_)]
        least = min(losses)[0]
        return least * LOSS_WEIGHT + before, tuple([local for lost, local in losses if lost == least])


Row: TypeAlias = tuple[int, int, Memo[GroupOccupancy, CheapestDevices], GroupPrices]
"""A group, the bits of its devices that may be taken, what was found out about its spots, its prices."""

Priced: TypeAlias = tuple[tuple[Row, ...], ...]
"""The groups of every alternative of a plan."""


class WholeDemand(NamedTuple):
    """Whole devices of one node that one entry of the mix could take."""

    mask: int
    number: int
    """Devices that one claim takes."""
    weight: int


class NodePrices:
    """What the mix sees in nodes of one kind."""

    __slots__ = ("groups_prices", "places", "priced", "reaches", "total")

    def __init__(
        self, groups_prices: Sequence[GroupPrices], places: Sequence[WholeDemand], reaches: Masks
    ) -> None:
        self.groups_prices = tuple(groups_prices)
        """Per group."""
        self.places = tuple(places)
        self.priced: Memo[SinglePlan, Priced] = Memo(MOST_KEPT)
        """What claims for one device may take."""
        self.reaches = reaches
        """Per set of devices that the mix knows: which of this node belong to it."""
        self.total = sum(place.weight * (place.mask.bit_count() // place.number) for place in self.places)

    def room(self, free: int) -> int:
        """Return what places are left among the free devices, `UNIT` for an empty node."""
        if not self.total:
            return 0
        left = sum(place.weight * ((place.mask & free).bit_count() // place.number) for place in self.places)
        return left * UNIT // self.total


class DemandPrices:
    """One mix and its prices."""

    def __init__(self, mix: DemandMix, cut_states: CutStatesCache, selectors: SelectorLookup) -> None:
        self.mix = mix
        self._cut_states = cut_states
        self.selectors = selectors
        self._groups_prices: Memo[tuple[GroupType, Vector, Masks], GroupPrices] = Memo(MOST_KEPT)
        self._by_columns: Memo[object, NodePrices] = Memo(MOST_KEPT)
        """By what kinds have in common that the mix sees the same of."""
        self._priced: Memo[object, Priced] = Memo(MOST_KEPT)
        """By what plans of different kinds have in common."""
        self._reads: dict[frozenset[str], tuple[str, ...] | None] = {}
        """What its selectors read, by the attributes that only each node can tell."""
        self.sets: dict[object, int] = {}
        """Sets of devices that claims choose from, by selectors."""
        for entry in mix:
            if entry.alternative is not None:
                self.sets.setdefault(_chooses(entry.alternative), len(self.sets))

    def set_of(self, alternative: Alternative | None) -> int | None:
        """Return the set that a request chooses from, None if the mix does not know it."""
        return None if alternative is None else self.sets.get(_chooses(alternative))

    def of(self, view: NodeView) -> NodePrices:
        """Return what the mix sees in a node."""
        node_class = view.node_class
        if node_class is None:
            return self._look(view)
        kept = node_class.memo(PRICES)
        found = kept.get(self)
        if found is None:
            found = kept[self] = self._share(view, node_class)
        return found

    def price(self, plan: SinglePlan, node_prices: NodePrices) -> Priced:
        """Return the prices of what a plan may take where this is seen."""
        key = plan.alternatives, node_prices.groups_prices
        found = self._priced.get(key)
        if found is None:
            found = self._priced[key] = tuple(
                [_rows(alternative.groups, node_prices.groups_prices) for alternative in plan.alternatives]
            )
        node_prices.priced[plan] = found
        return found

    def _share(self, view: NodeView, node_class: NodeClass) -> NodePrices:
        """Return one node_prices for all kinds of which the mix sees the same."""
        names = self._names(node_class)
        over = node_class.key_over(names) if names is not None else None
        if over is None:
            return self._look(view)
        found = self._by_columns.get(over)
        if found is None:
            found = self._by_columns[over] = self._look(view)
        return found

    def _names(self, node_class: NodeClass) -> Sequence[str] | None:
        """Return the attributes that the mix looks at on nodes of the kind; None: it may be any."""
        if node_class.per_node not in self._reads:
            self._reads[node_class.per_node] = self._looks_at(node_class)
        return self._reads[node_class.per_node]

    def _looks_at(self, node_class: NodeClass) -> tuple[str, ...] | None:
        found: set[str] = set()
        for entry in self.mix:
            if entry.alternative is None:
                return None
            reads = [
                self.selectors(text).reads
                for text in (*entry.alternative.class_selectors, *entry.alternative.selectors)
            ]
            # What only each node can tell is not looked at, see `Entry.mask`.
            if node_class.covers(reads):
                found.update([name for read in reads for _, name in read or ()])
        return tuple(sorted(found))

    def _look(self, view: NodeView) -> NodePrices:
        masks = [entry.mask(view, self.selectors) for entry in self.mix]
        groups_prices = [self._group_prices(view, number, masks) for number in range(len(view.groups))]
        places: dict[tuple[int, int], int] = {}
        reaches = [0] * len(self.sets)
        for entry, mask in zip(self.mix, masks, strict=True):
            whole = mask & view.plain & ~view.shareable
            alternative = entry.alternative
            if whole and alternative is not None:
                key = whole, alternative.count
                places[key] = places.get(key, 0) + entry.weight * alternative.count
                reaches[self.sets[_chooses(alternative)]] |= whole
        rows = [WholeDemand(mask, count, weight) for (mask, count), weight in places.items()]
        return NodePrices(groups_prices, rows, tuple(reaches))

    def _group_prices(self, view: NodeView, number: int, masks: Sequence[int]) -> GroupPrices:
        group = view.groups[number]
        demand: dict[int, int] = {}
        for entry, mask in zip(self.mix, masks, strict=True):
            local = group.gather(mask)
            if local:
                # Entries that come to the same are one: the linear program stays free of twins.
                demand[local] = demand.get(local, 0) + entry.weight * entry.count
        pieces = tuple(sorted(demand))
        key = group.group_type, group.totals, pieces
        found = self._groups_prices.get(key)
        if found is None:
            found = self._groups_prices[key] = self._price(
                key, group.fresh, [demand[piece] for piece in pieces]
            )
        return found

    def _price(
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


def _rows(groups: Sequence[tuple[int, int]], groups_prices: Sequence[GroupPrices]) -> tuple[Row, ...]:
    return tuple(
        [(number, mask, groups_prices[number].bests(mask), groups_prices[number]) for number, mask in groups]
    )


def _chooses(alternative: Alternative) -> object:
    return alternative.class_selectors, alternative.selectors, alternative.tolerations


def _vectors(group_type: GroupType, size: int, mask: int) -> list[Vector]:
    found = []
    for local in range(mask.bit_length()):
        if mask >> local & 1:
            amounts = [0] * size
            for counter, amount in group_type.needs[local]:
                amounts[counter] = amount
            found.append(tuple(amounts))
    return found
