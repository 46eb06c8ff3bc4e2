"""DeviceTraits: what strategies compare devices by: devices in use around them, and placements lost by taking them."""

from collections.abc import Iterable

from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.search import Search


class DeviceTraits:
    """Traits of the devices that one pick may take."""

    def __init__(self, search: Search, candidates: Candidates, mask: int) -> None:
        self._search = search
        self._free = search.view.base & ~search.view.exclusive & ~search.taken
        self._neighbours = search.view.neighbours
        self._mask = mask
        self._agreements = [
            constraint
            for constraint in (search.constraints[number] for number in candidates.alternative.constraints)
            if not constraint.distinct and not constraint.chosen
        ]

    def agreeing(self, index: int) -> int:
        """Return how many candidates agree with the device in attributes not yet fixed by picks; 0 without such constraints."""
        least = 0
        for constraint in self._agreements:
            # Only the device's own values: of UUIDs there are as many as devices.
            counts = [(constraint.values[value] & self._mask).bit_count() for value in constraint.of[index]]
            least = max(least, min(counts, default=0))
        return least

    def crowd(self, index: int) -> tuple[int, ...]:
        """Return how many devices around the device are free, at each distance, nearest first."""
        return self._neighbours.crowd(index, self._free)

    def packed(self, losses: Iterable[tuple[int, int, int]]) -> list[int]:
        """Return the devices of (worth lost, worth around it, device): preferred ones, then the least lost, then the fullest."""
        prefer, crowd, free = self._search.prefer, self._neighbours.crowd, self._free
        agreeing = self.agreeing if self._agreements else None
        keys = [
            (
                -prefer.get(index, 0),
                agreeing(index) if agreeing else 0,
                lost,
                around,
                crowd(index, free),
                index,
            )
            for lost, around, index in losses
        ]
        return [key[-1] for key in sorted(keys)]

    def losses(self, mask: int) -> list[tuple[int, int, int]]:
        """Return (worth lost, worth of its group, device) for each device of the mask, in placements."""
        search = self._search
        losses: list[tuple[int, int, int]] = []
        left = mask
        for group, state in zip(search.view.groups, search.states, strict=True):
            inside = left & group.mask
            if inside:
                left &= ~inside
                # Admin access and a further share take no counters, so they also work where counters are short.
                paying = inside & group.spread(state.fits) & ~(search.view.charged | search.paid)
                losses.extend(
                    (lost, state.worth, group.members[local])
                    for lost, local in state.losses(group.gather(paying))
                )
                left |= inside & ~paying
        shared = search.view.charged | search.paid
        while left:
            low = left & -left
            left ^= low
            # The first share takes a whole device, a further one nothing.
            whole = search.view.shareable & low and not (
                shared & low or low.bit_length() - 1 in search.shares
            )
            losses.append((1 if whole else 0, 1, low.bit_length() - 1))
        return losses


def loss(search: Search) -> int:
    """Return the worth of the placements that the picks made impossible."""
    return sum(
        group.state.worth - state.worth
        for group, state in zip(search.view.groups, search.states, strict=True)
        if group.state is not state
    )


def left_over(search: Search) -> int:
    """Return how many devices can still be taken in the pools of the picks."""
    picked = 0
    for pick in search.picks:
        picked |= 1 << pick.device
    free = search.view.pools_of(picked) & search.fit & ~search.view.exclusive & ~search.taken
    return free.bit_count()
