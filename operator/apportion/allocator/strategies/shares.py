"""LeastFragmentation's outcomes of queries for shares of devices without counters, without a search.

In: a node's view, a query. Out: the outcome that the search would find, as an estimate without picks where many node
classes share it; None where only the search can tell. What a share loses is kept by what is in use, so a node costs a
look-up per device, or one for all devices where another class is alike. Hot path.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from apportion.allocator.memo import keep
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.freeshares import FreeShares
from apportion.allocator.pricing.places import Uses
from apportion.allocator.pricing.prices import DemandPrices
from apportion.allocator.pricing.shareprices import MOST_KEPT, SharePrices
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import BROKEN, NOTHING, Contention, Outcome, Solved
from apportion.allocator.search.search import Pick
from apportion.allocator.strategies.pricedplans import DeviceShare, Loss, PricedPlan, PricedPlans
from apportion.allocator.strategies.singledevice import nearest

_UNUSED: Mapping[str, int] = {}


class ShareCosts(Protocol):
    """What LeastFragmentation charges for shares, beside the value that they take."""

    def free(self, view: NodeView) -> FreeShares:
        """Return what shares leave of the node's devices."""
        ...

    def contention_with_shares(
        self, view: NodeView, takes: Iterable[tuple[Alternative, int]], shares: Uses
    ) -> Contention:
        """Return the sets and places that shares take from other claims."""
        ...


Rated: TypeAlias = tuple[Loss, DeviceShare, object]
"""A device that has enough left, with what it loses and what is in use of it."""


class PricedShares:
    """Outcomes under one demand mix."""

    def __init__(self, prices: DemandPrices, share_prices: SharePrices, costs: ShareCosts) -> None:
        self._plans = PricedPlans(prices, share_prices)
        self._share_prices = share_prices
        self._costs = costs

    def solved(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome of a node with its picks."""
        priced = self._plans.of(view, query, selectors)
        return self._solve(view, query, priced) if priced is not None else None

    def outcome(
        self, view: NodeView, query: Query, selectors: SelectorLookup, holdings: object
    ) -> Outcome | None:
        """Return the outcome of all nodes with these holdings on which the same devices match."""
        priced, many = self._plans.of_group(view, query, selectors)
        if priced is None:
            return None
        if many:
            estimates = priced.estimates
            found = estimates.get(holdings)
            if found is None and holdings not in estimates:
                found = estimates[holdings] = self._estimate(view, query, priced)
            if found is not None:
                return found
        return self._solve(view, query, priced)

    def _solve(self, view: NodeView, query: Query, priced: PricedPlan) -> Outcome:
        for number, shares in enumerate(priced.alternatives):
            alternative = query.slots[0].alternatives[number]
            if alternative.count == 1:
                found = self._take(view, alternative, number, shares)
            else:
                found = self._take_several(view, alternative, number, shares)
            if found is not None:
                return found
        return NOTHING if view.invalid is None else BROKEN

    def _take(
        self, view: NodeView, alternative: Alternative, number: int, shares: tuple[DeviceShare, ...]
    ) -> Solved | None:
        """Take the device with the least value lost, the least value before, the most devices in use nearby; the first."""
        best: Loss | None = None
        equal = 0
        chosen: DeviceShare | None = None
        exclusive, in_use = view.exclusive, self._costs.free(view).in_use
        for share in shares:
            index = share.device
            if exclusive >> index & 1:
                continue
            key = in_use.get(index)
            if key in share.losses:
                found = share.losses[key]
            else:
                found = keep(share.losses, key, self._loss(view, share), MOST_KEPT)
            if found is None:
                continue
            if best is None or found < best:
                best, equal, chosen = found, 1 << index, share
            elif found == best:
                equal |= 1 << index
        if best is None or chosen is None:
            return None
        if equal & equal - 1:
            index = nearest(view, [], equal)
            chosen = next(share for share in shares if share.device == index)
        index = chosen.device
        lost = best[0]
        left = (view.pools_of(1 << index) & view.open).bit_count()
        return Solved(
            (number,),
            (0, lost, left),
            (Pick(0, number, index),),
            self._costs.contention_with_shares(view, ((alternative, 1 << index),), {index: chosen.own}),
        )

    def _take_several(
        self, view: NodeView, alternative: Alternative, number: int, shares: tuple[DeviceShare, ...]
    ) -> Solved | None:
        """Take the devices that are first in the same order: a share of one device changes no key of another one."""
        rated = self._rate(view, shares)
        if len(rated) < alternative.count:
            return None
        crowd, free = view.neighbours.crowd, view.base & ~view.exclusive
        rated.sort(key=lambda row: (row[0], crowd(row[1].device, free), row[1].device))
        chosen = rated[: alternative.count]
        picks = tuple([Pick(0, number, share.device) for _, share, _ in chosen])
        return self._solved(view, alternative, number, chosen, picks)

    def _estimate(self, view: NodeView, query: Query, priced: PricedPlan) -> Outcome | None:
        """Return the outcome without picks; None where the choice among devices may affect the score."""
        for number, (alternative, shares) in enumerate(
            zip(priced.plan.alternatives, priced.alternatives, strict=True)
        ):
            if not alternative.in_one_pool:
                return None
            rated = self._rate(view, shares)
            if len(rated) < alternative.number:
                continue
            rated.sort(key=lambda row: row[0])
            chosen, others = rated[: alternative.number], rated[alternative.number :]
            last = chosen[-1][0]
            equals = {(share.kind, used) for loss, share, used in rated if loss == last}
            if others and others[0][0] == last and len(equals) > 1:
                return None
            return self._solved(view, query.slots[0].alternatives[number], number, chosen, ())
        return NOTHING if view.invalid is None else BROKEN

    def _rate(self, view: NodeView, shares: Sequence[DeviceShare]) -> list[Rated]:
        """Return the devices that have enough left."""
        exclusive, in_use = view.exclusive, self._costs.free(view).in_use
        rated: list[Rated] = []
        for share in shares:
            if not exclusive >> share.device & 1:
                used = in_use.get(share.device)
                if used not in share.losses:
                    keep(share.losses, used, self._loss(view, share), MOST_KEPT)
                loss = share.losses[used]
                if loss is not None:
                    rated.append((loss, share, used))
        return rated

    def _solved(
        self,
        view: NodeView,
        alternative: Alternative,
        number: int,
        chosen: Sequence[Rated],
        picks: tuple[Pick, ...],
    ) -> Solved:
        """Return the outcome of these devices; without picks an estimate."""
        taken = {share.device: share.own for _, share, _ in chosen}
        lost = sum([loss[0] for loss, _, _ in chosen])
        mask = sum([1 << device for device in taken])
        left = (view.pools_of(mask) & view.open).bit_count()
        contention = self._costs.contention_with_shares(
            view, [(alternative, 1 << device) for device in taken], taken
        )
        return Solved((number,), (0, lost, left), picks, contention, has_picks=bool(picks))

    def _loss(self, view: NodeView, share: DeviceShare) -> Loss | None:
        used = view.used.get(share.device, _UNUSED)
        if not _fits(used, share.most):
            return None
        before = self._share_prices.worth(view, share.device, used)
        return before - self._share_prices.worth(view, share.device, used, share.own), before


def _fits(used: Mapping[str, int], most: Mapping[str, int]) -> bool:
    for name, amount in used.items():  # noqa: SIM110 - a generator takes twice the time
        if name in most and amount > most[name]:
            return False
    return True
