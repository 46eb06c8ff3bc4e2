"""How many devices of worth a node has free, a choice takes, and claims typically take.

In: an outlook. Out: integers, `UNIT` for a whole device: partitions and shares by what they are worth to the demand, whole
devices that somebody asks for as one each. Remembered by how nodes stand, so that a node costs a look-up.
"""

from collections.abc import Sequence

from apportion.allocator.bits import bits
from apportion.allocator.equivalence.nodeclass import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeState
from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.demandmix import entries
from apportion.allocator.pricing.prices import MOST_KEPT, DemandPrices, NodePrices
from apportion.allocator.pricing.shareprices import SharePrices
from apportion.allocator.rules.query import NamedQuery, Query
from apportion.allocator.search.search import Pick


class FreeWorth:
    """FreeWorth of worth under one outlook."""

    def __init__(self, outlook: DemandPrices, portions: SharePrices) -> None:
        self._outlook = outlook
        self._portions = portions
        self._free: dict[NodeState, int] = {}
        self._taken: dict[tuple[NodeState, tuple[Pick, ...]], int] = {}
        self._typical: dict[Query, tuple[int, int]] = {}
        """Per meaning: kinds looked at, what it takes of one."""
        self._epoch = -1

    def free(self, standing: NodeState, view: NodeView) -> int:
        """Return what a node on this standing has free."""
        found = self._free.get(standing)
        if found is None:
            if len(self._free) >= MOST_KEPT:
                self._free.clear()
            sight = self._outlook.sight(view)
            found = sum(
                stock.worth(group.state) for stock, group in zip(sight.stocks, view.groups, strict=True)
            )
            found += UNIT * (_whole(sight) & view.base & ~view.exclusive).bit_count()
            for index in bits(view.shareable & view.base & ~view.exclusive):
                found += self._portions.worth(view, index, view.used.get(index, {}))
            self._free[standing] = found
        return found

    def taken(self, standing: NodeState, view: NodeView, shape: NamedQuery, picks: tuple[Pick, ...]) -> int:
        """Return what these picks take of it."""
        if not shape.meaning.plain:
            return self._take(view, shape, picks)
        key = standing, picks
        found = self._taken.get(key)
        if found is None:
            if len(self._taken) >= MOST_KEPT:
                self._taken.clear()
            found = self._taken[key] = self._take(view, shape, picks)
        return found

    def typical(self, meaning: Query, kinds: NodeClasses) -> int:
        """Return what claims of this meaning take of an empty node that can serve them; 0 where no kind is known to."""
        self._follow(kinds)
        seen, found = self._typical.get(meaning, (0, 0))
        if not found and seen < len(kinds.log):
            for kind in kinds.log[seen:]:
                found = self._takes(meaning, kind.sample)
                if found:
                    break
            if len(self._typical) >= MOST_KEPT:
                self._typical.clear()
            self._typical[meaning] = len(kinds.log), found
        return found

    def _follow(self, kinds: NodeClasses) -> None:
        if self._epoch != kinds.epoch:
            # NodeClasses left the list, so positions in it mean others.
            self._epoch = kinds.epoch
            self._typical.clear()

    def _takes(self, meaning: Query, view: NodeView) -> int:
        sight = self._outlook.sight(view)
        total = 0
        for entry in entries(meaning, 1):
            mask = entry.mask(view, self._outlook.answers)
            if not mask or entry.want is None:
                return 0
            if mask & view.plain & ~view.shareable:
                total += UNIT * entry.count
                continue
            places = [
                stock.worth(group.fresh) - stock.worth(group.fresh.after(local))
                for stock, group in zip(sight.stocks, view.groups, strict=True)
                for local in bits(group.gather(mask) & group.fresh.fits)
            ]
            if places:
                total += entry.count * min(places)
                continue
            for index in bits(mask & view.shareable):
                charge = view.charge(index, entry.want)
                if isinstance(charge, dict):
                    own = {name: amount.nano for name, amount in charge.items()}
                    whole = self._portions.worth(view, index)
                    total += entry.count * (whole - self._portions.worth(view, index, own))
                    break
        return total

    def _take(self, view: NodeView, shape: NamedQuery, picks: Sequence[Pick]) -> int:
        sight = self._outlook.sight(view)
        whole = _whole(sight)
        after: dict[int, GroupState] = {}
        found = 0
        for pick in picks:
            want = shape.slots[pick.slot].wants[pick.want]
            bit = 1 << pick.device
            if want.admin:
                continue
            if view.shareable & bit:
                charge = view.charge(pick.device, want)
                if isinstance(charge, dict):
                    used = view.used.get(pick.device, {})
                    own = {name: amount.nano for name, amount in charge.items()}
                    found += self._portions.worth(view, pick.device, used)
                    found -= self._portions.worth(view, pick.device, used, own)
            elif pick.device in view.group_of:
                number, local = view.group_of[pick.device]
                after[number] = after.get(number, view.groups[number].state).after(local)
            elif whole & bit:
                found += UNIT
        for number, state in after.items():
            stock = sight.stocks[number]
            found += stock.worth(view.groups[number].state) - stock.worth(state)
        return found


def _whole(sight: NodePrices) -> int:
    """Return the whole devices that somebody asks for."""
    found = 0
    for place in sight.places:
        found |= place.mask
    return found
