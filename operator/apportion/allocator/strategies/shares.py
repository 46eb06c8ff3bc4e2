"""LeastFragmentation's outcomes of queries for shares of devices without counters, without a search.

In: a node's view, a query. Out: the outcome that the search would find, as an estimate without picks where many node
classes share it; None where only the search can tell. What a share loses is kept by what is in use, so a node costs a
look-up per device, or one for all devices where another class is alike. Hot path.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from apportion.allocator.memo import Memo, keep
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.freeshares import FreeShares
from apportion.allocator.pricing.places import Uses
from apportion.allocator.pricing.prices import DemandPrices, NodePrices
from apportion.allocator.pricing.shareprices import MOST_KEPT, SharePrices
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import BROKEN, NOTHING, Contention, Outcome, Solved
from apportion.allocator.search.search import Pick
from apportion.allocator.strategies.shareplan import AlternativeShares, SharePlan, share_plan
from apportion.allocator.strategies.singledevice import nearest

MOST_ESTIMATES = 4096
"""Estimates kept per priced plan."""

FEW_CLASSES = 8
"""Up to so many node classes with one plan, looking for an outcome that they share costs more than it saves."""

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


Loss: TypeAlias = tuple[int, int]
"""Value lost, and value before."""


class DeviceShare(NamedTuple):
    """What an alternative consumes of one device."""

    device: int
    own: Mapping[str, int]
    """Amounts in 10^-9 by capacity."""
    most: Mapping[str, int]
    """By capacity the amount that others may use beside it, in 10^-9."""
    losses: dict[object, Loss | None]
    """By what others use; None where the share does not fit."""
    kind: int
    """Of two devices of one kind that are used alike, it does not matter which one is taken, but for their places on the node."""


Rated: TypeAlias = tuple[Loss, DeviceShare, object]
"""A device that has enough left, with what it loses and what is in use of it."""


class PricedPlan:
    """A plan on nodes with equal prices. Compared by identity."""

    __slots__ = ("alternatives", "estimates", "plan")

    def __init__(self, plan: SharePlan, alternatives: tuple[tuple[DeviceShare, ...], ...]) -> None:
        self.plan = plan
        self.alternatives = alternatives
        self.estimates: Memo[object, Outcome | None] = Memo(MOST_ESTIMATES)
        """By holdings; None where the choice among devices may affect the score."""


class PricedShares:
    """Outcomes under one demand mix."""

    def __init__(self, prices: DemandPrices, share_prices: SharePrices, costs: ShareCosts) -> None:
        self._prices = prices
        self._share_prices = share_prices
        self._costs = costs
        self._priced: Memo[tuple[NodePrices, SharePlan], PricedPlan] = Memo(MOST_KEPT)
        self._losses: Memo[object, dict[object, Loss | None]] = Memo(MOST_KEPT)
        """By price row and amounts: shared by devices of several classes."""

    def solved(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome of a node with its picks."""
        plan = share_plan(view, query, selectors)
        return self._solve(view, query, self._price(view, plan)) if plan is not None else None

    def outcome(
        self, view: NodeView, query: Query, selectors: SelectorLookup, holdings: object
    ) -> Outcome | None:
        """Return the outcome of all nodes with these holdings on which the same devices match."""
        plan = share_plan(view, query, selectors)
        if plan is None:
            return None
        priced = self._price(view, plan)
        if plan.classes > FEW_CLASSES:
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

    def _rate(self, view: NodeView, shares: Sequence[DeviceShare]) -> list[tuple[Loss, DeviceShare, object]]:
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

    def _price(self, view: NodeView, plan: SharePlan) -> PricedPlan:
        node_prices = self._prices.of(view)
        key = node_prices, plan
        found = self._priced.get(key)
        if found is None:
            kinds: dict[object, int] = {}
            alternatives = tuple(
                [self._price_alternative(view, node_prices, each, kinds) for each in plan.alternatives]
            )
            found = self._priced[key] = PricedPlan(plan, alternatives)
        return found

    def _price_alternative(
        self,
        view: NodeView,
        node_prices: NodePrices,
        alternative: AlternativeShares,
        kinds: dict[object, int],
    ) -> tuple[DeviceShare, ...]:
        shares = []
        for index, amounts in alternative.devices:
            key = self._share_prices.row(view, index), amounts.key
            losses = self._losses.get(key)
            if losses is None:
                losses = self._losses[key] = {}
            sets = tuple([mask >> index & 1 for mask in node_prices.set_masks])
            rooms = tuple(
                [
                    (number, *most.items())
                    for number, room in enumerate(node_prices.rooms)
                    for device, most in room.devices
                    if device == index
                ]
            )
            kind = kinds.setdefault((key, sets, rooms), len(kinds))
            shares.append(DeviceShare(index, amounts.own, amounts.most, losses, kind))
        return tuple(shares)


def _fits(used: Mapping[str, int], most: Mapping[str, int]) -> bool:
    for name, amount in used.items():  # noqa: SIM110 - a generator takes twice the time
        if name in most and amount > most[name]:
            return False
    return True
