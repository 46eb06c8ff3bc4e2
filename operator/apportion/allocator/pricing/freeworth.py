"""How many devices of worth a node has free, a choice takes, and claims typically take.

In: an outlook. Out: integers, `UNIT` for a whole device: partitions and shares by what they are worth to the demand, whole
devices that somebody asks for as one each. Remembered by how nodes stand, so that a node costs a look-up.
"""

from collections.abc import Sequence

from apportion.allocator.bits import bits
from apportion.allocator.equivalence.nodeclasses import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.memo import Memo
from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.demandmix import entries
from apportion.allocator.pricing.prices import MOST_KEPT, DemandPrices, NodePrices
from apportion.allocator.pricing.shareprices import SharePrices
from apportion.allocator.rules.query import Query
from apportion.allocator.search.search import Pick


class FreeWorth:
    """FreeWorth of worth under one outlook."""

    def __init__(self, prices: DemandPrices, share_prices: SharePrices) -> None:
        self._prices = prices
        self._share_prices = share_prices
        self._free: Memo[NodeState, int] = Memo(MOST_KEPT)
        self._taken: Memo[tuple[NodeState, tuple[Pick, ...]], int] = Memo(MOST_KEPT)
        self._typical: Memo[Query, tuple[int, int]] = Memo(MOST_KEPT)
        """Per meaning: kinds looked at, what it takes of one."""
        self._epoch = -1

    def free(self, node_state: NodeState, view: NodeView) -> int:
        """Return what a node on this standing has free."""
        found = self._free.get(node_state)
        if found is None:
            node_prices = self._prices.of(view)
            found = sum(
                group_prices.worth(group.state)
                for group_prices, group in zip(node_prices.groups_prices, view.groups, strict=True)
            )
            found += UNIT * (_whole(node_prices) & view.base & ~view.exclusive).bit_count()
            for index in bits(view.shareable & view.base & ~view.exclusive):
                found += self._share_prices.worth(view, index, view.used.get(index, {}))
            self._free[node_state] = found
        return found

    def taken(self, node_state: NodeState, view: NodeView, query: Query, picks: tuple[Pick, ...]) -> int:
        """Return what these picks take of it."""
        if not query.plain:
            return self._take(view, query, picks)
        key = node_state, picks
        found = self._taken.get(key)
        if found is None:
            found = self._taken[key] = self._take(view, query, picks)
        return found

    def typical(self, query: Query, node_classes: NodeClasses) -> int:
        """Return what claims of this meaning take of an empty node that can serve them; 0 where no kind is known to."""
        self._follow(node_classes)
        seen, found = self._typical.get(query, (0, 0))
        if not found and seen < len(node_classes.log):
            for _, view in node_classes.log[seen:]:
                found = self._takes(query, view)
                if found:
                    break
            self._typical[query] = len(node_classes.log), found
        return found

    def _follow(self, node_classes: NodeClasses) -> None:
        if self._epoch != node_classes.epoch:
            # NodeClasses left the list, so positions in it mean others.
            self._epoch = node_classes.epoch
            self._typical.clear()

    def _takes(self, query: Query, view: NodeView) -> int:
        node_prices = self._prices.of(view)
        total = 0
        for entry in entries(query, 1):
            mask = entry.mask(view, self._prices.selectors)
            if not mask or entry.alternative is None:
                return 0
            if mask & view.plain & ~view.shareable:
                total += UNIT * entry.count
                continue
            places = [
                group_prices.worth(group.fresh) - group_prices.worth(group.fresh.after(local))
                for group_prices, group in zip(node_prices.groups_prices, view.groups, strict=True)
                for local in bits(group.gather(mask) & group.fresh.fits)
            ]
            if places:
                total += entry.count * min(places)
                continue
            for index in bits(mask & view.shareable):
                charge = view.charge(index, entry.alternative)
                if isinstance(charge, dict):
                    own = {name: amount.nano for name, amount in charge.items()}
                    whole = self._share_prices.worth(view, index)
                    total += entry.count * (whole - self._share_prices.worth(view, index, own))
                    break
        return total

    def _take(self, view: NodeView, query: Query, picks: Sequence[Pick]) -> int:
        node_prices = self._prices.of(view)
        whole = _whole(node_prices)
        after: dict[int, GroupState] = {}
        found = 0
        for pick in picks:
            alternative = query.slots[pick.slot].alternatives[pick.alternative]
            bit = 1 << pick.device
            if alternative.admin:
                continue
            if view.shareable & bit:
                charge = view.charge(pick.device, alternative)
                if isinstance(charge, dict):
                    used = view.used.get(pick.device, {})
                    own = {name: amount.nano for name, amount in charge.items()}
                    found += self._share_prices.worth(view, pick.device, used)
                    found -= self._share_prices.worth(view, pick.device, used, own)
            elif pick.device in view.group_of:
                number, local = view.group_of[pick.device]
                after[number] = after.get(number, view.groups[number].state).after(local)
            elif whole & bit:
                found += UNIT
        for number, state in after.items():
            group_prices = node_prices.groups_prices[number]
            found += group_prices.worth(view.groups[number].state) - group_prices.worth(state)
        return found


def _whole(node_prices: NodePrices) -> int:
    """Return the whole devices that somebody asks for."""
    found = 0
    for place in node_prices.places:
        found |= place.mask
    return found
