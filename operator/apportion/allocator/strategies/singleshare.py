"""LeastFragmentation's outcomes of queries for one share of a device without counters, without a search.

In: a node's view, a query. Out: the outcome that the search would find; None where
only the search can tell. What a request consumes of each device is kept by class,
and what it loses by what is in use, so a node costs a look-up per device. Hot path.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo, keep
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.freeshares import FreeShares
from apportion.allocator.pricing.places import Uses
from apportion.allocator.pricing.shareprices import MOST_KEPT, SharePrices
from apportion.allocator.rules.query import Alternative, ErrorCause, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import BROKEN, NOTHING, Contention, Outcome, Solved
from apportion.allocator.search.search import Pick
from apportion.allocator.strategies.singledevice import nearest
from apportion.dra.device import Capacity
from apportion.dra.quantity import Quantity

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


class DeviceShare(NamedTuple):
    """What an alternative consumes of one device."""

    device: int
    own: Mapping[str, int]
    """Amounts in 10^-9 by capacity."""
    most: Mapping[str, int]
    """By capacity the amount that others may use beside it, in 10^-9."""
    losses: dict[object, tuple[int, int] | None]
    """Value lost and value before, by what others use; None where the share does not fit."""


class PricedShare:
    """Outcomes under one demand mix."""

    def __init__(self, share_prices: SharePrices, costs: ShareCosts) -> None:
        self._share_prices = share_prices
        self._costs = costs
        self._plans: Memo[tuple[NodeClass, Query], tuple[tuple[DeviceShare, ...], ...] | None] = Memo(
            MOST_KEPT
        )
        """The devices of each alternative; None where only the search can tell."""
        self._losses: Memo[object, dict[object, tuple[int, int] | None]] = Memo(MOST_KEPT)
        """By price row and amounts: shared by devices of several classes."""

    def outcome(self, view: NodeView, query: Query, selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome of a query that all nodes of the class answer with the same devices."""
        node_class = view.node_class
        if node_class is None or len(query.slots) != 1:
            return None
        key = node_class, query
        if key not in self._plans:
            self._plans[key] = self._plan(view, query, selectors)
        plan = self._plans[key]
        if plan is None:
            return None
        for number, shares in enumerate(plan):
            found = self._take(view, query, number, shares)
            if found is not None:
                return found
        return NOTHING if view.invalid is None else BROKEN

    def _take(
        self, view: NodeView, query: Query, number: int, shares: tuple[DeviceShare, ...]
    ) -> Solved | None:
        """Take the device with the least value lost, the least value before, the most devices in use nearby; the first."""
        best: tuple[int, int] | None = None
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
            self._costs.contention_with_shares(
                view, ((query.slots[0].alternatives[number], 1 << index),), {index: chosen.own}
            ),
        )

    def _loss(self, view: NodeView, share: DeviceShare) -> tuple[int, int] | None:
        used = view.used.get(share.device, _UNUSED)
        if not _fits(used, share.most):
            return None
        before = self._share_prices.worth(view, share.device, used)
        return before - self._share_prices.worth(view, share.device, used, share.own), before

    def _plan(
        self, view: NodeView, query: Query, selectors: SelectorLookup
    ) -> tuple[tuple[DeviceShare, ...], ...] | None:
        if query.constraints or not query.counted or not view.features.consumable_capacity:
            return None
        if not view.node_class or not view.node_class.covers([selectors(text).reads for text in query.texts]):
            return None
        plan = []
        for alternative in query.slots[0].alternatives:
            shares = self._shares(view, alternative, selectors)
            if shares is None:
                return None
            plan.append(shares)
        return tuple(plan)

    def _shares(
        self, view: NodeView, alternative: Alternative, selectors: SelectorLookup
    ) -> tuple[DeviceShare, ...] | None:
        mask, errors = view.selected(alternative, selectors)
        mask &= view.tolerating(alternative.tolerations)
        if errors or alternative.count != 1 or mask & (view.base & ~(view.plain & view.shareable)):
            return None
        shares = []
        # The slice reader shares equal capacities, so most devices of a node need no arithmetic of their own.
        amounts: dict[int, _Amounts | None] = {}
        for index in bits(mask & view.base):
            capacity = view.devices[index].capacity
            shared = id(capacity)
            if shared not in amounts:
                taken = view.charge(index, alternative)
                if isinstance(taken, ErrorCause):
                    return None
                amounts[shared] = _amounts(taken, capacity) if taken is not None else None
            found = amounts[shared]
            if found is None:
                continue
            key = self._share_prices.row(view, index), found.key
            losses = self._losses.get(key)
            if losses is None:
                losses = self._losses[key] = {}
            shares.append(DeviceShare(index, found.own, found.most, losses))
        return tuple(shares)


class _Amounts(NamedTuple):
    """What a share takes of a device of one capacity, in 10^-9."""

    own: Mapping[str, int]
    most: Mapping[str, int]
    key: tuple[tuple[str, int], ...]


def _amounts(taken: Mapping[str, Quantity], capacity: Mapping[str, Capacity]) -> _Amounts | None:
    """Return the amounts; None where the whole device has less."""
    own = {name: amount.nano for name, amount in taken.items()}
    most = {name: capacity[name].value.nano - amount for name, amount in own.items()}
    if any(amount < 0 for amount in most.values()):
        return None
    return _Amounts(own, most, tuple(own.items()))


def _fits(used: Mapping[str, int], most: Mapping[str, int]) -> bool:
    for name, amount in used.items():  # noqa: SIM110 - a generator takes twice the time
        if name in most and amount > most[name]:
            return False
    return True
