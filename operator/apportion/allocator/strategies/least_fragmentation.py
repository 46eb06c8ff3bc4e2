"""LeastFragmentation: keep the most future demand placeable.

In: an outlook, that is what the demand makes of nodes. The least worth lost wins: of the states of shared counters, of
places for several whole devices at once. Among equals the fullest group and node, so that whole ones stay whole.
Scores depend on the outlook, the claims and how a node stands, on nothing else.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.freeworth import FreeWorth
from apportion.allocator.pricing.prices import DemandPrices, NodePrices
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.pricing.shareprices import SharePrices
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.scorer import Contention, Score
from apportion.allocator.search.search import Search
from apportion.allocator.strategies.deviceorder import DeviceTraits, left_over
from apportion.allocator.strategies.pricedsingle import PricedSingle
from apportion.allocator.strategies.wholedevices import WholeDeviceEstimate

PLACES = 2
"""Weight of the places for demanded numbers of whole devices that a choice costs, an empty node's being one."""

FILL = 2
"""Part of a whole that choosing an empty node costs over one that the claim fills. Tuned with `PLACES` on made clusters
of two models: both guard whole nodes, neither must outweigh the cost of devices that others need."""

MOST_PARTS = 4096
"""Meanings whose parts are kept."""


class LeastFragmentation:
    """Prefer what costs the demand least."""

    scans = True

    def __init__(self, outlook: DemandPrices, supply: Scarcity | None = None) -> None:
        self.outlook = outlook
        self.one = PricedSingle(outlook)
        self.portions = SharePrices(outlook.mix, outlook.answers)
        self.glance = WholeDeviceEstimate(self)
        self.supply = supply if supply is not None else Scarcity(outlook)
        self._parts: dict[Query, tuple[int | None, ...]] = {}
        self.stranding = Stranding(FreeWorth(outlook, self.portions))

    def part(self, meaning: Query) -> object:
        """Return what two claims must have in common, beside what they match, to get one answer from nodes alike.

        What a claim takes from others depends on which of the known sets of devices is its own.
        """
        if not self.supply.rival:
            return ()
        found = self._parts.get(meaning)
        if found is None:
            if len(self._parts) >= MOST_PARTS:
                self._parts.clear()
            found = self._parts[meaning] = tuple(
                self.outlook.set_of(want) for slot in meaning.slots for want in slot.wants
            )
        return found

    def order(self, search: Search, option: Candidates, mask: int) -> Sequence[int]:
        """Return preferred devices first, then those whose taking loses the least worth."""
        traits = DeviceTraits(search, option, mask)
        prefer = search.prefer
        return [
            key[-1]
            for key in sorted(
                (-prefer.get(index, 0), traits.room(index), lost, around, traits.crowd(index), index)
                for lost, around, index in self._losses(search, option.want, mask)
            )
        ]

    def score(self, search: Search) -> Score:
        """Rate by worth lost, then by what is left on the node."""
        sight = self.outlook.sight(search.view)
        lost = sum(
            stock.worth(group.state) - stock.worth(state)
            for stock, group, state in zip(sight.stocks, search.view.groups, search.states, strict=True)
            if group.state is not state
        )
        whole = search.taken & search.view.plain
        if whole:
            lost += self.lost_whole(search.view, sight, whole)
        for index, shares in search.shares.items():
            used = search.view.used.get(index, {})
            lost += self.portions.worth(search.view, index, used) - self.portions.worth(
                search.view, index, used, shares
            )
        return lost, left_over(search)

    def lost_whole(self, view: NodeView, sight: NodePrices, whole: int) -> int:
        """Return what taking these devices without counters costs. Depends on how many of each place they are only."""
        free = view.base & ~view.exclusive
        lost = PLACES * (sight.room(free) - sight.room(free & ~whole))
        # Best fit: an empty node against one that the claim fills.
        return lost + UNIT * (free & view.plain).bit_count() // max(view.plain.bit_count(), 1) // FILL

    def harm(self, search: Search) -> Contention:
        """Return the sets of devices that lose some, without being all that the claim could use, once per device."""
        slots = search.shape.slots
        takes = [(slots[pick.slot].wants[pick.want], 1 << pick.device) for pick in search.picks]
        return self.harm_of(self.outlook.sight(search.view), takes)

    def harm_of(self, sight: NodePrices, takes: Iterable[tuple[Alternative, int]]) -> Contention:
        """Return the same for requests and the bit of a device that each takes."""
        if not any(sight.reaches):
            return ()
        found: list[int] = []
        for want, bit in takes:
            reached = [one for one, mask in enumerate(sight.reaches) if mask & bit]
            found.extend(self.supply.harmed(self.outlook.set_of(want), reached))
        return tuple(sorted(found))

    def toll(self, harm: Contention) -> float:
        """Return what it costs now to take from those sets."""
        return self.supply.toll(harm)

    def _losses(self, search: Search, want: Alternative, mask: int) -> list[tuple[int, int, int]]:
        """Return (worth lost, worth around it, device) for every device of the mask."""
        view = search.view
        sight = self.outlook.sight(view)
        found: list[tuple[int, int, int]] = []
        left = mask
        shared = view.charged | search.paid
        for number, (group, state) in enumerate(zip(view.groups, search.states, strict=True)):
            # An administrator's look takes nothing, and works where counters are short; so does another share.
            paying = left & group.mask & group.spread(state.fits) & ~shared
            if paying:
                left &= ~paying
                stock = sight.stocks[number]
                before = stock.worth(state)
                found += [
                    (before - stock.worth(state.after(local)), before, group.members[local])
                    for local in bits(group.gather(paying))
                ]
        for index in bits(left):
            taken = view.charge(index, want) if view.shareable >> index & 1 else None
            if not isinstance(taken, dict):
                found.append((0, UNIT, index))
                continue
            uses = view.used.get(index, {}), search.shares.get(index, {})
            before = self.portions.worth(view, index, *uses)
            own = {name: amount.nano for name, amount in taken.items()}
            found.append((before - self.portions.worth(view, index, *uses, own), before, index))
        return found
