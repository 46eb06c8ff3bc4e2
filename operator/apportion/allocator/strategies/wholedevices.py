"""WholeDeviceEstimate: LeastFragmentation's score of a whole-device query without choosing devices.

In: a node's view, a query. Out: the search's outcome without picks; None if the choice may affect the score, that is where
the demand mix distinguishes the matching devices. Nodes are compared by estimates, and only the best one is searched.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from apportion.allocator.memo import Memo, Topic, keep
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.prices import MOST_KEPT, DemandPrices, NodePrices
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import NOTHING, Contention, Outcome, Solved


class WholeDeviceCosts(Protocol):
    """What LeastFragmentation charges for devices without counters."""

    def contention_of(self, node_prices: NodePrices, takes: Iterable[tuple[Alternative, int]]) -> Contention:
        """Return the sets that lose devices to alternatives, each with the bit of one device that it takes."""
        ...

    def lost_whole(self, view: NodeView, node_prices: NodePrices, whole: int) -> int:
        """Return the cost of taking these devices."""
        ...


class SlotDevices(NamedTuple):
    """The devices that match one slot."""

    mask: int
    number: int
    """Devices that the slot takes."""
    alternative: Alternative
    constrained: bool
    """Whether the query's constraint covers the slot."""


class MatchingDevices:
    """The devices that match a query on nodes of a class; one object for all classes on which the same devices match."""

    __slots__ = ("attribute", "pools", "slots", "total")

    def __init__(self, slots: tuple[SlotDevices, ...], pools: int, attribute: str | None) -> None:
        self.slots = slots
        self.pools = pools
        """All devices of the pools with matching devices."""
        self.attribute = attribute
        """The attribute in which the devices must agree."""
        self.total = sum(slot.number for slot in slots)


MATCHING: Topic[Query, MatchingDevices | None] = Topic("matching devices", MOST_KEPT)


class WholeDeviceEstimate:
    """Estimates under one demand mix."""

    def __init__(self, prices: DemandPrices, costs: WholeDeviceCosts) -> None:
        self._prices = prices
        self._costs = costs
        self._same: Memo[object, MatchingDevices] = Memo(MOST_KEPT)
        """By query, template and matching devices, where selectors read per-node attributes."""
        self._known: Memo[
            tuple[NodePrices, MatchingDevices], tuple[Contention, Memo[tuple[int, int], Outcome]] | tuple[()]
        ] = Memo(MOST_KEPT)
        """Contention and outcomes by open and held devices; empty where the choice may affect the score."""

    def outcome(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the search's outcome without picks; None where only the search can tell."""
        matching = self._matching(view, query, selectors)
        if matching is None:
            return None
        node_prices = self._prices.of(view)
        key = node_prices, matching
        known = self._known.get(key)
        if known is None:
            contention = self._contention(node_prices, matching)
            known = self._known[key] = () if contention is None else (contention, Memo(MOST_KEPT))
        if not known:
            return None
        if matching.attribute is not None and not _agree(view, matching, matching.attribute):
            return NOTHING
        contention, outcomes = known
        state = view.open, view.exclusive
        found = outcomes.get(state)
        if found is None:
            found = outcomes[state] = self._rate(view, node_prices, matching, contention)
        return found

    def _matching(self, view: NodeView, query: Query, selectors: SelectorLookup) -> MatchingDevices | None:
        """Return the matching devices; None unless each request is for whole devices and has one alternative."""
        node_class = view.node_class
        if node_class is None:
            return None
        kept: dict[Query, MatchingDevices | None] | None = node_class.memos.get(MATCHING)
        if kept is None:
            kept = node_class.memo(MATCHING)
        known = kept.get(query)
        if known is not None or query in kept:
            return known
        reads = [selectors(text).reads for text in query.texts]
        if not node_class.covers(reads):
            found = _read(view, query, selectors)
            if found is None:
                return None
            key = query, view.template, tuple([slot.mask for slot in found.slots])
            if key not in self._same:
                self._same[key] = found
            return self._same[key]
        names = sorted({name for read in reads for _, name in read or ()})
        made = node_class.table(("matching", query), names, lambda: _read(view, query, selectors))
        return keep(kept, query, made, MATCHING.most)

    def _contention(self, node_prices: NodePrices, matching: MatchingDevices) -> Contention | None:
        """Return the contention of any choice; None where the demand mix distinguishes choices."""
        for mask in (*(demand.mask for demand in node_prices.whole_demands), *node_prices.set_masks):
            for slot in matching.slots:
                if mask & slot.mask not in (0, slot.mask):
                    return None
        takes = [
            (slot.alternative, slot.mask & -slot.mask)
            for slot in matching.slots
            if slot.mask
            for _ in range(slot.number)
        ]
        return self._costs.contention_of(node_prices, takes)

    def _rate(
        self, view: NodeView, node_prices: NodePrices, matching: MatchingDevices, contention: Contention
    ) -> Outcome:
        whole = 0
        for slot in matching.slots:
            open_ = slot.mask & view.open
            for _ in range(slot.number):
                # The first device serves for any: the demand mix does not distinguish them.
                whole |= open_ & -open_
                open_ &= open_ - 1
        if whole.bit_count() < matching.total:
            return NOTHING
        left = (matching.pools & view.open).bit_count() - matching.total
        score = 0, self._costs.lost_whole(view, node_prices, whole), left
        return Solved((0,) * len(matching.slots), score, (), contention, has_picks=False)


def _read(view: NodeView, query: Query, selectors: SelectorLookup) -> MatchingDevices | None:
    constraints = query.constraints
    if not query.slots or not query.plain or view.unclassifiable:
        return None
    if len(constraints) > 1 or any(constraint.distinct for constraint in constraints):
        return None
    slots: list[SlotDevices] = []
    covered = pools = 0
    for slot in query.slots:
        alternative = slot.alternatives[0]
        mask, errors = view.selected(alternative, selectors)
        mask &= view.tolerating(alternative.tolerations)
        pool_masks = [pool for pool in view.template.pool_masks if pool & mask]
        if (
            errors
            or len(slot.alternatives) > 1
            or len(pool_masks) > 1
            or mask & (covered | view.limited | ~view.plain)
        ):
            return None
        covered |= mask
        pools |= view.pools_of(mask)
        slots.append(SlotDevices(mask, alternative.count, alternative, bool(alternative.constraints)))
    return MatchingDevices(tuple(slots), pools, constraints[0].attribute if constraints else None)


def _agree(view: NodeView, matching: MatchingDevices, attribute: str) -> bool:
    """Say whether enough open devices have one value of the attribute."""
    constrained = [(slot.mask & view.open, slot.number) for slot in matching.slots if slot.constrained]
    return any(
        all((row & open_).bit_count() >= number for open_, number in constrained)
        for row in view.values(attribute).values()
    )
