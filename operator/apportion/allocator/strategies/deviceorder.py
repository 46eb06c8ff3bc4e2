"""What strategies weigh: how crowded a device's neighbourhood is, and what taking it makes impossible."""

from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.search import Search


class DeviceTraits:
    """Looks at the devices that are open to one pick."""

    def __init__(self, search: Search, candidates: Candidates, mask: int) -> None:
        self._search = search
        self._free = search.view.base & ~search.view.exclusive & ~search.taken
        self._neighbours = search.view.neighbours
        self._rooms = [
            [devices & mask for devices in constraint.values.values()]
            for constraint in (search.constraints[number] for number in candidates.alternative.constraints)
            if not constraint.distinct and not constraint.chosen
        ]

    def room(self, index: int) -> int:
        """Return how many candidates agree with the device where a constraint is still open; 0 without one."""
        least = 0
        for rows in self._rooms:
            counts = [row.bit_count() for row in rows if row >> index & 1]
            least = max(least, min(counts, default=0))
        return least

    def crowd(self, index: int) -> tuple[int, ...]:
        """Return how many free devices sit around the device, nearest first."""
        return self._neighbours.crowd(index, self._free)

    def losses(self, mask: int) -> list[tuple[int, int, int]]:
        """Return (worth lost, worth around it, device) for every device of the mask."""
        search = self._search
        found: list[tuple[int, int, int]] = []
        left = mask
        for group, state in zip(search.view.groups, search.states, strict=True):
            inside = left & group.mask
            if inside:
                left &= ~inside
                # An administrator's look takes nothing, and works where counters are short; so does another share.
                paying = inside & group.spread(state.fits) & ~(search.view.charged | search.paid)
                found.extend(
                    (lost, state.worth, group.members[local])
                    for lost, local in state.losses(group.gather(paying))
                )
                left |= inside & ~paying
        shared = search.view.charged | search.paid
        while left:
            low = left & -left
            left ^= low
            # Another share of a device in use costs nothing new; the first one costs a whole device.
            whole = search.view.shareable & low and not (
                shared & low or low.bit_length() - 1 in search.shares
            )
            found.append((1 if whole else 0, 1, low.bit_length() - 1))
        return found


def loss(search: Search) -> int:
    """Return what the picks made impossible is worth."""
    return sum(
        group.state.worth - state.worth
        for group, state in zip(search.view.groups, search.states, strict=True)
        if group.state is not state
    )


def left_over(search: Search) -> int:
    """Return how many devices could still be taken in the pools that were used."""
    touched = 0
    for pick in search.picks:
        touched |= 1 << pick.device
    free = search.view.pools_of(touched) & search.fit & ~search.view.exclusive & ~search.taken
    return free.bit_count()
