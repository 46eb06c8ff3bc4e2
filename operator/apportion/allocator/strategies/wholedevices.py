"""WholeDeviceEstimate: LeastFragmentation's score of a whole-device query without choosing devices.

In: a node's view, a query. Out: the search's outcome without picks; None if the choice affects the score, which it does only
where the demand mix tells the matching devices apart. Nodes are compared by estimates, and only the best one is searched.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from apportion.allocator.memo import Memo, Topic
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.prices import MOST_KEPT, DemandPrices, NodePrices
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import NOTHING, Contention, Outcome, Solved


class WholeDeviceCosts(Protocol):
    """What LeastFragmentation charges for devices without counters."""

    def contention_of(self, node_prices: NodePrices, takes: Iterable[tuple[Alternative, int]]) -> Contention:
        """Return the sets of devices taken from other claims, for alternatives and the bit of a device that each takes."""
        ...

    def lost_whole(self, view: NodeView, node_prices: NodePrices, whole: int) -> int:
        """Return what taking these devices costs."""
        ...


class SlotDevices(NamedTuple):
    """The devices that match one slot."""

    mask: int
    number: int
    alternative: Alternative
    bound: bool
    """Whether the constraint covers it."""


class WantedDevices:
    """The devices that match a query on nodes of a class; one object for all classes on which they are the same."""

    __slots__ = ("attribute", "parts", "pools", "total")

    def __init__(self, parts: tuple[SlotDevices, ...], pools: int, attribute: str | None) -> None:
        self.parts = parts
        self.pools = pools
        """All devices of the pools of the matching ones."""
        self.attribute = attribute
        """The attribute in which the devices must agree."""
        self.total = sum(part.number for part in parts)


WANTED: Topic[Query, WantedDevices | None] = Topic("wanted devices", MOST_KEPT)


class WholeDeviceEstimate:
    """Estimates under one demand mix."""

    def __init__(self, prices: DemandPrices, costs: WholeDeviceCosts) -> None:
        self._prices = prices
        self._costs = costs
        self._same: Memo[object, WantedDevices] = Memo(MOST_KEPT)
        """For queries whose selectors read per-node attributes, by the devices that they accept."""
        self._known: Memo[
            tuple[NodePrices, WantedDevices], tuple[Contention, Memo[tuple[int, int], Outcome]] | None
        ] = Memo(MOST_KEPT)

    def outcome(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome of the search; without picks where it would find some."""
        wanted = self._wanted(view, query, selectors)
        if wanted is None:
            return None
        node_prices = self._prices.of(view)
        key = node_prices, wanted
        if key not in self._known:
            contention = self._contention(node_prices, wanted)
            self._known[key] = None if contention is None else (contention, Memo(MOST_KEPT))
        known = self._known[key]
        if known is None:
            return None
        if wanted.attribute is not None and not _agree(view, wanted, wanted.attribute):
            return NOTHING
        contention, outcomes = known
        state = view.open, view.exclusive
        found = outcomes.get(state)
        if found is None:
            found = outcomes[state] = self._rate(view, node_prices, wanted, contention)
        return found

    def _wanted(self, view: NodeView, query: Query, selectors: SelectorLookup) -> WantedDevices | None:
        """Return the matching devices; None for other queries than whole devices with one alternative each."""
        node_class = view.node_class
        if node_class is None:
            return None
        kept = node_class.memo(WANTED)
        if query in kept:
            return kept[query]
        reads = [selectors(text).reads for text in query.texts]
        if not node_class.covers(reads):
            found = _read(view, query, selectors)
            if found is None:
                return None
            key = query, view.template, tuple([part.mask for part in found.parts])
            if key not in self._same:
                self._same[key] = found
            return self._same[key]
        names = sorted({name for read in reads for _, name in read or ()})
        kept[query] = node_class.table(("wanted", query), names, lambda: _read(view, query, selectors))
        return kept[query]

    def _contention(self, node_prices: NodePrices, wanted: WantedDevices) -> Contention | None:
        """Return the contention of any choice; None where the demand mix tells choices apart."""
        for seen in (*(place.mask for place in node_prices.places), *node_prices.reaches):
            for part in wanted.parts:
                if seen & part.mask not in (0, part.mask):
                    return None
        takes = [
            (part.alternative, part.mask & -part.mask)
            for part in wanted.parts
            if part.mask
            for _ in range(part.number)
        ]
        return self._costs.contention_of(node_prices, takes)

    def _rate(
        self, view: NodeView, node_prices: NodePrices, wanted: WantedDevices, contention: Contention
    ) -> Outcome:
        whole = 0
        for part in wanted.parts:
            open_ = part.mask & view.open
            for _ in range(part.number):
                # Any of them: the demand mix does not tell them apart.
                whole |= open_ & -open_
                open_ &= open_ - 1
        if whole.bit_count() < wanted.total:
            return NOTHING
        left = (wanted.pools & view.open).bit_count() - wanted.total
        score = 0, self._costs.lost_whole(view, node_prices, whole), left
        return Solved((0,) * len(wanted.parts), score, (), contention, has_picks=False)


def _read(view: NodeView, query: Query, selectors: SelectorLookup) -> WantedDevices | None:
    constraints = query.constraints
    if not query.slots or not query.plain or view.unclassifiable:
        return None
    if len(constraints) > 1 or any(constraint.distinct for constraint in constraints):
        return None
    parts: list[SlotDevices] = []
    seen = pools = 0
    for slot in query.slots:
        alternative = slot.alternatives[0]
        mask, errors = view.selected(alternative, selectors)
        mask &= view.tolerating(alternative.tolerations)
        homes = [pool for pool in view.template.pool_masks if pool & mask]
        if (
            errors
            or len(slot.alternatives) > 1
            or len(homes) > 1
            or mask & (seen | view.shareable | ~view.plain)
        ):
            return None
        seen |= mask
        pools |= view.pools_of(mask)
        parts.append(SlotDevices(mask, alternative.count, alternative, bool(alternative.constraints)))
    return WantedDevices(tuple(parts), pools, constraints[0].attribute if constraints else None)


def _agree(view: NodeView, wanted: WantedDevices, attribute: str) -> bool:
    """Say whether enough devices agree."""
    bound = [(part.mask & view.open, part.number) for part in wanted.parts if part.bound]
    return any(
        all((row & open_).bit_count() >= number for open_, number in bound)
        for row in view.values(attribute).values()
    )
