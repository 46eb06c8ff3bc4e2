"""LeastFragmentation: keep the most future demand placeable.

In: prices under a demand mix. Out: device orders, scores and outcomes. The choice that loses the least value wins: value of
counter groups, of room for claims of several whole devices, of shared devices. Among equals the fullest group and node win,
so that empty ones stay empty. A score depends on the prices, the query and the node state only.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.freeshares import FreeShares
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.places import Uses
from apportion.allocator.pricing.prices import DemandPrices, NodePrices
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.pricing.shareprices import SharePrices
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import CUT_SHORT, Contention, Outcome, Score, Solved, Unsolved
from apportion.allocator.search.scorer import OutcomeKeeper, Scorer
from apportion.allocator.search.search import Pick, Search
from apportion.allocator.search.searchbudget import FULL, SearchBudget
from apportion.allocator.search.solve import solve
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over
from apportion.allocator.strategies.shares import PricedShares
from apportion.allocator.strategies.singledevice import PricedSingle
from apportion.allocator.strategies.wholedevices import WholeDeviceEstimate

ROOM = 2
"""Weight of the lost part of a node's room for whole-device claims (`NodePrices.room`)."""

FILL = 2
"""Taking an empty node costs 1 / `FILL` of a whole device more than taking one that the claim fills. Tuned with `ROOM` on
generated clusters of two models: both protect empty nodes, neither may outweigh contention."""

MOST_DISCRIMINATORS = 4096
"""Queries whose discriminators are kept."""


class LeastFragmentation(Scorer):
    """The strategy under one demand mix."""

    values_idle = True

    def __init__(self, prices: DemandPrices, scarcity: Scarcity | None = None) -> None:
        self.prices = prices
        self._single = PricedSingle(prices)
        self.share_prices = SharePrices(prices)
        self.scarcity = scarcity if scarcity is not None else Scarcity(prices)
        self._shares = PricedShares(prices, self.share_prices, self)
        self._estimate = WholeDeviceEstimate(prices, self)
        self._discriminators: Memo[Query, tuple[int | None, ...]] = Memo(MOST_DISCRIMINATORS)
        self._free_worth = FreeWorth(prices, self.share_prices)
        self.stranding = Stranding(self._free_worth)

    def discriminator(self, query: Query) -> object:
        """Return the number of each alternative's device set: contention depends on it."""
        if not self.scarcity.contested:
            return ()
        found = self._discriminators.get(query)
        if found is None:
            found = self._discriminators[query] = tuple(
                self.prices.set_of(alternative) for alternative in query.alternatives
            )
        return found

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those that lose the least value."""
        traits = DeviceTraits(search, candidates, mask)
        return traits.packed(self._losses(search, candidates.alternative, mask))

    def score(self, search: Search) -> Score:
        """Rate by value lost, then by what is left on the node."""
        node_prices = self.prices.of(search.view)
        lost = sum(
            group_prices.worth(group.state) - group_prices.worth(state)
            for group_prices, group, state in zip(
                node_prices.by_group, search.view.groups, search.states, strict=True
            )
            if group.state is not state
        )
        whole = search.taken & search.view.plain
        if whole:
            lost += self.lost_whole(search.view, node_prices, whole)
        taken = 0
        for index, shares in search.shares.items():
            taken += self.share_prices.taken(search.view, index, shares)
        lost += taken
        return lost, left_over(search)

    def free(self, view: NodeView) -> FreeShares:
        """Return what shares leave of the node's devices."""
        return self.scarcity.free_shares.of(view)

    def lost_whole(self, view: NodeView, node_prices: NodePrices, whole: int) -> int:
        """Return the cost of taking these devices without counters; depends only on how many each entry of the mix loses."""
        free = view.base & ~view.exclusive
        lost = ROOM * (node_prices.room(free) - node_prices.room(free & ~whole))
        # Best fit: an empty node costs more than one that the claim fills.
        return lost + UNIT * (free & view.plain).bit_count() // max(view.plain.bit_count(), 1) // FILL

    def contention(self, search: Search) -> Contention:
        """Return the sets that lose devices although the claim could use others, once per device lost."""
        slots = search.query.slots
        view = search.view
        takes = [(slots[pick.slot].alternatives[pick.alternative], 1 << pick.device) for pick in search.picks]
        if not view.shareable:
            return self.contention_of(self.prices.of(view), takes)
        return self.contention_with_shares(view, takes, search.shares)

    def contention_with_shares(
        self, view: NodeView, takes: Iterable[tuple[Alternative, int]], shares: Uses
    ) -> Contention:
        """Return the same, with the places that shares take; a share takes a device of a set if nobody uses it yet."""
        node_prices = self.prices.of(view)
        found = self.contention_of(node_prices, [take for take in takes if not take[1] & view.charged])
        if not shares or not node_prices.rooms:
            return found
        lost = self.free(view).lost_places(view, shares)
        return (*found, *sorted(map(self.scarcity.place, lost))) if lost else found

    def contention_of(self, node_prices: NodePrices, takes: Iterable[tuple[Alternative, int]]) -> Contention:
        """Return the same for alternatives, each with the bit of one device that it takes."""
        if not any(node_prices.set_masks):
            return ()
        contended: list[int] = []
        for alternative, bit in takes:
            touched = [number for number, mask in enumerate(node_prices.set_masks) if mask & bit]
            contended.extend(self.scarcity.contended(self.prices.set_of(alternative), touched))
        return tuple(sorted(contended))

    def contention_cost(self, contention: Contention) -> float:
        """Return the present cost of taking devices from those sets."""
        return self.scarcity.contention_cost(contention)

    def shortcut(
        self, view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the outcome of a query for one device with counters, or for one share, from kept prices."""
        found = self._single.outcome(view, query, selectors, shared=shared)
        if found is None and view.shareable:
            found = self._shares.solved(view, query, selectors)
        return found

    def estimate(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome of a whole-device query without picks."""
        return self._estimate.outcome(view, query, selectors)

    def outcome(
        self,
        view: NodeView,
        query: Query,
        selectors: SelectorLookup,
        keeper: OutcomeKeeper,
        budget: SearchBudget = FULL,
    ) -> Outcome:
        """Return the outcome of all nodes of a state: from kept prices, estimated, scored anew, or searched. Hot path."""
        if view.groups:
            # Where nothing matches on a node without counters, the estimate says so, too.
            found = self._single.outcome(view, query, selectors, shared=True)
            if found is not None:
                return found
        if view.shareable:
            found = self._shares.outcome(view, query, selectors, keeper.holdings)
            if found is not None:
                return found
        found = self._estimate.outcome(view, query, selectors)
        return self._rerate(view, query, selectors, keeper, budget) if found is None else found

    def destroyed(self, view: NodeView, picks: Sequence[Pick], idle: Iterable[int]) -> int:
        """Return the cost of the idle partitions that no longer fit beside the picks."""
        return self._free_worth.destroyed(view, picks, idle)

    def _rerate(
        self,
        view: NodeView,
        query: Query,
        selectors: SelectorLookup,
        keeper: OutcomeKeeper,
        budget: SearchBudget,
    ) -> Outcome:
        """Return an earlier outcome with a new score where prices cannot change the picks, else a searched outcome.

        A search picks the same devices under all prices if every matching device has no counters and serves one claim only.
        """
        former = keeper.price_free.get(query)
        if isinstance(former, Unsolved):
            return former
        if isinstance(former, Solved):
            search = Search(view, query, [], self)
            for pick in former.picks:
                search.taken |= 1 << pick.device
                search.picks.append(pick)
            return self.rated(search, former.ranks, former.picks)
        outcome = solve(view, query, self, selectors, budget)
        kept = isinstance(outcome, Solved | Unsolved) and outcome is not CUT_SHORT
        if kept and _is_price_free(view, query, selectors):
            keeper.price_free[query] = outcome
        return outcome

    def _losses(self, search: Search, alternative: Alternative, mask: int) -> list[tuple[int, int, int]]:
        """Return (value lost, value of its group, device) for each device of the mask."""
        view = search.view
        node_prices = self.prices.of(view)
        losses: list[tuple[int, int, int]] = []
        left = mask
        shared = view.charged | search.paid
        for number, (group, state) in enumerate(zip(view.groups, search.states, strict=True)):
            # Admin access and a further share take no counters, so they also work where counters are short.
            paying = left & group.mask & group.spread(state.fits) & ~shared
            if paying:
                left &= ~paying
                group_prices = node_prices.by_group[number]
                before = group_prices.worth(state)
                for local in bits(group.gather(paying)):
                    index = group.members[local]
                    lost = before - group_prices.worth(state.after(local))
                    own = self._own(view, index, alternative)
                    if own is not None:
                        lost -= self.share_prices.left(view, index, own)
                    losses.append((lost, before, index))
        for index in bits(left):
            own = self._own(view, index, alternative)
            if own is None:
                losses.append((0, UNIT, index))
                continue
            uses = view.used.get(index, {}), search.shares.get(index, {})
            before = self.share_prices.left(view, index, *uses)
            losses.append((before - self.share_prices.left(view, index, *uses, own), before, index))
        return losses

    def _own(self, view: NodeView, index: int, alternative: Alternative) -> dict[str, int] | None:
        """Return what the alternative consumes of a device to share, in 10^-9; None of other devices."""
        taken = view.charge(index, alternative) if view.shareable >> index & 1 else None
        return {name: amount.nano for name, amount in taken.items()} if isinstance(taken, dict) else None


def _is_price_free(view: NodeView, query: Query, selectors: SelectorLookup) -> bool:
    """Say whether all matching devices have no counters and serve one claim only."""
    priced = ~view.plain | view.shareable
    return query.plain and not any(
        view.selected(alternative, selectors)[0] & priced for alternative in query.alternatives
    )
