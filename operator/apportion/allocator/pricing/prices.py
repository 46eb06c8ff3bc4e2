"""What nodes are worth under one mix.

In: a mix. Out, per kind of node: a value for every state of its groups of shared counters, the places that demanded
numbers of whole devices have on it, and how far the devices that only some claims can use are needed. Everything is
computed from the published counters and what the mix's selectors accept; no model is known by name.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.node.counters import GroupState, GroupType
from apportion.allocator.node.groupoccupancy import LOSS_WEIGHT, CheapestDevices, GroupOccupancy
from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.pricing.cutprices import UNIT, CutPrices
from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.rules.query import Alternative

if TYPE_CHECKING:
    from apportion.allocator.equivalence.nodeclass import NodeClass
    from apportion.allocator.search.singleplan import SinglePlan

MOST_MIXES = 32
"""Outlooks whose sight of it a kind keeps; older ones belong to mixes that nobody asks for any more."""

MOST_KEPT = 8192
"""Kinds, groups and boards whose prices are kept."""

Masks = tuple[int, ...]


class CutStatesCache:
    """The boards seen so far: they outlive the prices."""

    def __init__(self) -> None:
        self._kept: dict[tuple[GroupType, Vector, Masks], CutStates] = {}

    def of(self, make: GroupType, full: Vector, pieces: Masks) -> CutStates:
        """Return the one object for these pieces, each a bit mask of the devices of a group."""
        key = make, full, pieces
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = CutStates(full, [_vectors(make, len(full), mask) for mask in pieces])
        return found


class GroupPrices:
    """Values of one group's states under the mix. States are remembered by identity."""

    __slots__ = ("_bests", "_cutting", "_fresh", "_worth")

    def __init__(self, cutting: CutPrices | None, fresh: GroupState) -> None:
        self._cutting = cutting
        self._fresh = fresh
        self._worth: dict[GroupState, int] = {}
        self._bests: dict[int, dict[GroupOccupancy, CheapestDevices]] = {}

    def worth(self, state: GroupState) -> int:
        """Return what a state is worth, `UNIT` for a whole device."""
        found = self._worth.get(state)
        if found is None:
            if len(self._worth) >= MOST_KEPT:
                self._worth.clear()
            found = self._worth[state] = self._value(state)
        return found

    def _value(self, state: GroupState) -> int:
        known = self._cutting.worth(state.left) if self._cutting is not None else None
        if known is not None:
            return known
        # Nobody asked for these yet, or there are too many states: every placement counts, large ones more.
        return state.worth * UNIT // max(self._fresh.worth, 1)

    def bests(self, mask: int) -> dict[GroupOccupancy, CheapestDevices]:
        """Return what `best` answered for these devices: a table to look at first."""
        found = self._bests.get(mask)
        if found is None:
            # Who took one of these before goes on with it; it only costs.
            if len(self._bests) >= MOST_KEPT:
                self._bests.clear()
            found = self._bests[mask] = {}
        return found

    def best(self, spot: GroupOccupancy, mask: int) -> CheapestDevices:
        """Return the least worth lost by taking one of the devices, and the worth around it, in one number; and which."""
        known = self.bests(mask)
        found = known.get(spot)
        if found is None:
            if len(known) >= MOST_KEPT:
                known.clear()
            found = known[spot] = self._least(spot.state, mask & spot.open)
        return found

    def _least(self, state: GroupState, open_: int) -> CheapestDevices:
        if not open_:
            return ()
        before = self.worth(state)
        losses = [(before - self.worth(state.after(local)), local) for local in bits(open_)]
        least = min(losses)[0]
        return least * LOSS_WEIGHT + before, tuple([local for lost, local in losses if lost == least])


Row: TypeAlias = tuple[int, int, dict[GroupOccupancy, CheapestDevices], GroupPrices]
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

    __slots__ = ("places", "priced", "reaches", "stocks", "total")

    def __init__(self, stocks: Sequence[GroupPrices], places: Sequence[WholeDemand], reaches: Masks) -> None:
        self.stocks = tuple(stocks)
        """Per group."""
        self.places = tuple(places)
        self.priced: dict[SinglePlan, Priced] = {}
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

    def __init__(self, mix: DemandMix, boards: CutStatesCache, answers: SelectorLookup) -> None:
        self.mix = mix
        self._boards = boards
        self.answers = answers
        self._stocks: dict[tuple[GroupType, Vector, Masks], GroupPrices] = {}
        self._sights: dict[object, NodePrices] = {}
        """By what kinds have in common that the mix sees the same of."""
        self._priced: dict[object, Priced] = {}
        """By what plans of different kinds have in common."""
        self._reads: dict[frozenset[str], tuple[str, ...] | None] = {}
        """What its selectors read, by the attributes that only each node can tell."""
        self.sets: dict[object, int] = {}
        """Sets of devices that claims choose from, by selectors."""
        for entry in mix:
            if entry.want is not None:
                self.sets.setdefault(_chooses(entry.want), len(self.sets))

    def set_of(self, want: Alternative | None) -> int | None:
        """Return the set that a request chooses from, None if the mix does not know it."""
        return None if want is None else self.sets.get(_chooses(want))

    def sight(self, view: NodeView) -> NodePrices:
        """Return what the mix sees in a node."""
        kind = view.kind
        if kind is None:
            return self._look(view)
        found = kind.sights.get(self)
        if found is None:
            if len(kind.sights) >= MOST_MIXES:
                kind.sights.clear()
            found = kind.sights[self] = self._share(view, kind)
        return found

    def price(self, plan: "SinglePlan", sight: NodePrices) -> Priced:
        """Return the prices of what a plan may take where this is seen."""
        key = plan.ways, sight.stocks
        found = self._priced.get(key)
        if found is None:
            if len(self._priced) >= MOST_KEPT:
                self._priced.clear()
            found = self._priced[key] = tuple([_rows(way.groups, sight.stocks) for way in plan.ways])
        if len(sight.priced) >= MOST_KEPT:
            sight.priced.clear()
        sight.priced[plan] = found
        return found

    def _share(self, view: NodeView, kind: "NodeClass") -> NodePrices:
        """Return one sight for all kinds of which the mix sees the same."""
        names = self._names(kind)
        seen = kind.seen(names) if names is not None else None
        if seen is None:
            return self._look(view)
        found = self._sights.get(seen)
        if found is None:
            if len(self._sights) >= MOST_KEPT:
                self._sights.clear()
            found = self._sights[seen] = self._look(view)
        return found

    def _names(self, kind: "NodeClass") -> Sequence[str] | None:
        """Return the attributes that the mix looks at on nodes of the kind; None: it may be any."""
        if kind.personal not in self._reads:
            self._reads[kind.personal] = self._looks_at(kind)
        return self._reads[kind.personal]

    def _looks_at(self, kind: "NodeClass") -> tuple[str, ...] | None:
        found: set[str] = set()
        for entry in self.mix:
            if entry.want is None:
                return None
            reads = [
                self.answers(text).reads for text in (*entry.want.class_selectors, *entry.want.selectors)
            ]
            # What only each node can tell is not looked at, see `Entry.mask`.
            if kind.covers(reads):
                found.update([name for read in reads for _, name in read or ()])
        return tuple(sorted(found))

    def _look(self, view: NodeView) -> NodePrices:
        masks = [entry.mask(view, self.answers) for entry in self.mix]
        stocks = [self._stock(view, number, masks) for number in range(len(view.groups))]
        places: dict[tuple[int, int], int] = {}
        reaches = [0] * len(self.sets)
        for entry, mask in zip(self.mix, masks, strict=True):
            whole = mask & view.plain & ~view.shareable
            want = entry.want
            if whole and want is not None:
                key = whole, want.count
                places[key] = places.get(key, 0) + entry.weight * want.count
                reaches[self.sets[_chooses(want)]] |= whole
        rows = [WholeDemand(mask, count, weight) for (mask, count), weight in places.items()]
        return NodePrices(stocks, rows, tuple(reaches))

    def _stock(self, view: NodeView, number: int, masks: Sequence[int]) -> GroupPrices:
        group = view.groups[number]
        demand: dict[int, int] = {}
        for entry, mask in zip(self.mix, masks, strict=True):
            local = group.gather(mask)
            if local:
                # Entries that come to the same are one: the linear program stays free of twins.
                demand[local] = demand.get(local, 0) + entry.weight * entry.count
        pieces = tuple(sorted(demand))
        key = group.make, group.totals, pieces
        found = self._stocks.get(key)
        if found is None:
            if len(self._stocks) >= MOST_KEPT:
                self._stocks.clear()
            found = self._stocks[key] = self._price(key, group.fresh, [demand[piece] for piece in pieces])
        return found

    def _price(
        self, key: tuple[GroupType, Vector, Masks], fresh: GroupState, demand: Sequence[int]
    ) -> GroupPrices:
        if not demand:
            return GroupPrices(None, fresh)
        board = self._boards.of(*key)
        if board.full == NOWHERE:
            return GroupPrices(None, fresh)
        cutting = CutPrices(board, demand)
        return GroupPrices(cutting if any(cutting.prices) else None, fresh)


def _rows(groups: Sequence[tuple[int, int]], stocks: Sequence[GroupPrices]) -> tuple[Row, ...]:
    return tuple([(number, mask, stocks[number].bests(mask), stocks[number]) for number, mask in groups])


def _chooses(want: Alternative) -> object:
    return want.class_selectors, want.selectors, want.tolerations


def _vectors(make: GroupType, size: int, mask: int) -> list[Vector]:
    found = []
    for local in range(mask.bit_length()):
        if mask >> local & 1:
            amounts = [0] * size
            for counter, amount in make.needs[local]:
                amounts[counter] = amount
            found.append(tuple(amounts))
    return found
