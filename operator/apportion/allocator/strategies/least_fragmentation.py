"""LeastFragmentation: keep the most future demand placeable.

In: an outlook, that is what the demand makes of nodes. The least worth lost wins: of the states of shared counters, of
places for several whole devices at once. Among equals the fullest group and node, so that whole ones stay whole.
Scores depend on the outlook, the claims and how a node stands, on nothing else.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.idlepartitions import worth_destroyed
from apportion.allocator.pricing.prices import DemandPrices, NodePrices
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.pricing.shareprices import SharePrices
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Contention, Outcome, Score
from apportion.allocator.search.scorer import OutcomeKeeper, Scorer
from apportion.allocator.search.search import Pick, Search
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over
from apportion.allocator.strategies.rerate import rerate
from apportion.allocator.strategies.singledevice import PricedSingle
from apportion.allocator.strategies.wholedevices import WholeDeviceEstimate

PLACES = 2
"""Weight of the places for demanded numbers of whole devices that a choice costs, an empty node's being one."""

FILL = 2
"""Part of a whole that choosing an empty node costs over one that the claim fills. Tuned with `PLACES` on made clusters
of two models: both guard whole nodes, neither must outweigh the cost of devices that others need."""

MOST_DISCRIMINATORS = 4096
"""Queries whose discriminators are kept."""


class LeastFragmentation(Scorer):
    """The choice that costs the demand least."""

    values_idle = True

    def __init__(self, prices: DemandPrices, scarcity: Scarcity | None = None) -> None:
        self.prices = prices
        self._single = PricedSingle(prices)
        self.share_prices = SharePrices(prices.mix, prices.selectors)
        self._estimate = WholeDeviceEstimate(prices, self)
        self.scarcity = scarcity if scarcity is not None else Scarcity(prices)
        self._discriminators: Memo[Query, tuple[int | None, ...]] = Memo(MOST_DISCRIMINATORS)
        self.stranding = Stranding(FreeWorth(prices, self.share_prices))

    def discriminator(self, query: Query) -> object:
        """Return the set of devices that each alternative chooses from: contention depends on it."""
        if not self.scarcity.contested:
            return ()
        found = self._discriminators.get(query)
        if found is None:
            found = self._discriminators[query] = tuple(
                self.prices.set_of(alternative) for slot in query.slots for alternative in slot.alternatives
            )
        return found

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those whose taking loses the least worth."""
        traits = DeviceTraits(search, candidates, mask)
        prefer = search.prefer
        return [
            key[-1]
            for key in sorted(
                (-prefer.get(index, 0), traits.room(index), lost, around, traits.crowd(index), index)
                for lost, around, index in self._losses(search, candidates.alternative, mask)
            )
        ]

    def score(self, search: Search) -> Score:
        """Rate by worth lost, then by what is left on the node."""
        node_prices = self.prices.of(search.view)
        lost = sum(
            group_prices.worth(group.state) - group_prices.worth(state)
            for group_prices, group, state in zip(
                node_prices.groups_prices, search.view.groups, search.states, strict=True
            )
            if group.state is not state
        )
        whole = search.taken & search.view.plain
        if whole:
            lost += self.lost_whole(search.view, node_prices, whole)
        for index, shares in search.shares.items():
            used = search.view.used.get(index, {})
            lost += self.share_prices.worth(search.view, index, used) - self.share_prices.worth(
                search.view, index, used, shares
            )
        return lost, left_over(search)

    def lost_whole(self, view: NodeView, node_prices: NodePrices, whole: int) -> int:
        """Return what taking these devices without counters costs. Depends on how many of each place they are only."""
        free = view.base & ~view.exclusive
        lost = PLACES * (node_prices.room(free) - node_prices.room(free & ~whole))
        # Best fit: an empty node against one that the claim fills.
        return lost + UNIT * (free & view.plain).bit_count() // max(view.plain.bit_count(), 1) // FILL

    def contention(self, search: Search) -> Contention:
        """Return the sets of devices that lose some, without being all that the claim could use, once per device."""
        slots = search.query.slots
        takes = [(slots[pick.slot].alternatives[pick.alternative], 1 << pick.device) for pick in search.picks]
        return self.contention_of(self.prices.of(search.view), takes)

    def contention_of(self, node_prices: NodePrices, takes: Iterable[tuple[Alternative, int]]) -> Contention:
        """Return the same for requests and the bit of a device that each takes."""
        if not any(node_prices.reaches):
            return ()
        found: list[int] = []
        for alternative, bit in takes:
            reached = [one for one, mask in enumerate(node_prices.reaches) if mask & bit]
            found.extend(self.scarcity.contended(self.prices.set_of(alternative), reached))
        return tuple(sorted(found))

    def contention_cost(self, contention: Contention) -> float:
        """Return what it costs now to take from those sets."""
        return self.scarcity.contention_cost(contention)

    def shortcut(
        self, view: NodeView, query: Query, selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the outcome of a query for one device with counters, from kept prices."""
        return self._single.outcome(view, query, selectors, shared=shared)

    def estimate(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome of a whole-device query without picks."""
        return self._estimate.outcome(view, query, selectors)

    def outcome(
        self, view: NodeView, query: Query, selectors: SelectorLookup, keeper: OutcomeKeeper
    ) -> Outcome:
        """Return the outcome of all nodes of a state: from kept prices, estimated, rated again, or searched. Hot path."""
        found = self._single.outcome(view, query, selectors, shared=True)
        if found is None:
            found = self._estimate.outcome(view, query, selectors)
        return found if found is not None else rerate(view, query, self, selectors, keeper)

    def destroyed(self, view: NodeView, picks: Sequence[Pick], idle: Iterable[int]) -> int:
        """Return what the idle partitions are worth that no longer fit beside the picks."""
        return worth_destroyed(view, self.prices, picks, idle)

    def _losses(self, search: Search, alternative: Alternative, mask: int) -> list[tuple[int, int, int]]:
        """Return (worth lost, worth around it, device) for every device of the mask."""
        view = search.view
        node_prices = self.prices.of(view)
        found: list[tuple[int, int, int]] = []
        left = mask
        shared = view.charged | search.paid
        for number, (group, state) in enumerate(zip(view.groups, search.states, strict=True)):
            # An administrator's look takes nothing, and works where counters are short; so does another share.
            paying = left & group.mask & group.spread(state.fits) & ~shared
            if paying:
                left &= ~paying
                group_prices = node_prices.groups_prices[number]
                before = group_prices.worth(state)
                found += [
                    (before - group_prices.worth(state.after(local)), before, group.members[local])
                    for local in bits(group.gather(paying))
                ]
        for index in bits(left):
            taken = view.charge(index, alternative) if view.shareable >> index & 1 else None
            if not isinstance(taken, dict):
                found.append((0, UNIT, index))
                continue
            uses = view.used.get(index, {}), search.shares.get(index, {})
            before = self.share_prices.worth(view, index, *uses)
            own = {name: amount.nano for name, amount in taken.items()}
            found.append((before - self.share_prices.worth(view, index, *uses, own), before, index))
        return found
