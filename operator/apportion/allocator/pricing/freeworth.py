"""FreeWorth: the value of a node's free devices, of the devices that a choice takes, and of those that a claim typically takes.

In: prices. Out: integers, `UNIT` for a whole device: partitions and shares at their price, each demanded whole device as
one. Kept by node state, so that a node costs a look-up.
"""

from collections.abc import Callable, Iterable, Sequence

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

IDLE_PART = 8
"""Destroying an idle partition costs an eighth of its value: enough to choose among placements of nearly equal cost, too
little to start another whole device."""


class FreeWorth:
    """Values of devices under one demand mix."""

    def __init__(self, prices: DemandPrices, share_prices: SharePrices) -> None:
        self._prices = prices
        self._share_prices = share_prices
        self._free: Memo[NodeState, int] = Memo(MOST_KEPT)
        self._taken: Memo[tuple[NodeState, Query], tuple[tuple[Pick, ...], int]] = Memo(MOST_KEPT)
        """The picks asked about last, with their value: a query has the same picks on all nodes of a state, as a rule."""
        self._typical: Memo[Query, tuple[int, int]] = Memo(MOST_KEPT)
        """Per query: the classes looked at, and the value that it takes on one of them."""
        self._epoch = -1

    def free(self, node_state: NodeState, view: NodeView) -> int:
        """Return the value of the free devices of a node in this state."""
        total = self._free.get(node_state)
        if total is None:
            node_prices = self._prices.of(view)
            total = sum(
                group_prices.worth(group.state)
                for group_prices, group in zip(node_prices.by_group, view.groups, strict=True)
            )
            total += UNIT * (_demanded_whole(node_prices) & view.base & ~view.exclusive).bit_count()
            for index in bits(view.shareable & view.base & ~view.exclusive):
                # A partition that nobody shares yet counts with its card.
                if view.plain >> index & 1 or view.charged >> index & 1:
                    total += self._share_prices.left(view, index, view.used.get(index, {}))
            self._free[node_state] = total
        return total

    def taken(
        self,
        node_state: NodeState,
        query: Query,
        picks: tuple[Pick, ...],
        name: str,
        view_of: Callable[[str], NodeView],
    ) -> int:
        """Return the part of that value which these picks take. `name`: a node of the state. Hot path."""
        key = node_state, query
        known = self._taken.get(key)
        # Comparing the same tuple with itself takes less than its hash.
        if known is not None and known[0] == picks:
            return known[1]
        found = self._worth_taken(view_of(name), query, picks)
        if query.counted:
            self._taken[key] = picks, found
        return found

    def typical(self, query: Query, node_classes: NodeClasses) -> int:
        """Return the value that a query takes on an empty node; 0 where no known node class can serve it."""
        self._follow(node_classes)
        seen, found = self._typical.get(query, (0, 0))
        if not found and seen < len(node_classes.log):
            for _, view in node_classes.log[seen:]:
                found = self._worth_on_empty(query, view)
                if found:
                    break
            self._typical[query] = len(node_classes.log), found
        return found

    def _follow(self, node_classes: NodeClasses) -> None:
        if self._epoch != node_classes.epoch:
            # Classes left the log, so positions in it changed.
            self._epoch = node_classes.epoch
            self._typical.clear()

    def _worth_on_empty(self, query: Query, view: NodeView) -> int:
        node_prices = self._prices.of(view)
        total = 0
        for entry in entries(query, 1):
            mask = entry.mask(view, self._prices.selectors)
            if not mask or entry.alternative is None:
                return 0
            if mask & view.plain & ~view.shareable:
                total += UNIT * entry.count
                continue
            losses = [
                group_prices.worth(group.fresh) - group_prices.worth(group.fresh.after(local))
                for group_prices, group in zip(node_prices.by_group, view.groups, strict=True)
                for local in bits(group.gather(mask) & group.fresh.fits)
            ]
            if losses:
                total += entry.count * min(losses)
                continue
            for index in bits(mask & view.shareable):
                charge = view.charge(index, entry.alternative)
                if isinstance(charge, dict):
                    own = {name: amount.nano for name, amount in charge.items()}
                    whole = self._share_prices.worth(view, index)
                    total += entry.count * (whole - self._share_prices.worth(view, index, own))
                    break
        return total

    def _worth_taken(self, view: NodeView, query: Query, picks: Sequence[Pick]) -> int:
        node_prices = self._prices.of(view)
        whole = _demanded_whole(node_prices)
        after: dict[int, GroupState] = {}
        total = opened = 0
        for pick in picks:
            alternative = query.slots[pick.slot].alternatives[pick.alternative]
            bit = 1 << pick.device
            if alternative.admin:
                continue
            if view.shareable & bit:
                charge = view.charge(pick.device, alternative)
                if isinstance(charge, dict):
                    own = {name: amount.nano for name, amount in charge.items()}
                    total += self._share_prices.taken(view, pick.device, own)
                if (view.charged | opened) & bit:
                    continue
                opened |= bit
            if pick.device in view.group_of:
                number, local = view.group_of[pick.device]
                after[number] = after.get(number, view.groups[number].state).after(local)
            elif whole & bit:
                total += UNIT
        for number, state in after.items():
            group_prices = node_prices.by_group[number]
            total += group_prices.worth(view.groups[number].state) - group_prices.worth(state)
        return total

    def destroyed(self, view: NodeView, picks: Sequence[Pick], idle: Iterable[int]) -> int:
        """Return what it costs to destroy idle partitions: of these devices, those that no longer fit beside the picks.

        Only a part of their value: the counters stay usable, but the next claim has to wait until a partition is cut.
        """
        picked = {pick.device for pick in picks}
        after: dict[int, GroupState] = {}
        for device in picked & view.group_of.keys():
            number, local = view.group_of[device]
            after[number] = after.get(number, view.groups[number].state).after(local)
        by_group = self._prices.of(view).by_group
        lost = 0
        for device in idle:
            number, local = view.group_of.get(device, (-1, 0))
            if number not in after or device in picked or after[number].fits >> local & 1:
                continue
            state = view.groups[number].state
            if state.fits >> local & 1:
                lost += by_group[number].worth(state) - by_group[number].worth(state.after(local))
        return lost // IDLE_PART


def _demanded_whole(node_prices: NodePrices) -> int:
    """Return the mask of the whole devices that the mix demands."""
    mask = 0
    for demand in node_prices.whole_demands:
        mask |= demand.mask
    return mask
