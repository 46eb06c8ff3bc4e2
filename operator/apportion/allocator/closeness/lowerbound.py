"""A lower bound: how close the devices that are still to be chosen can be at best.

In: the devices open to every remaining slot, those chosen. Out: the least worst level and the least sum of levels that
any choice adds; never more than the best choice adds.
"""

from collections.abc import Callable, Sequence

from apportion.allocator.closeness.distances import NodeDistances

FEW = 24
"""Cells among which levels that are not nested are worth counting."""


def least(
    asks: Sequence[tuple[int, int]],
    chosen: Sequence[int],
    distances: NodeDistances,
    capacity: Callable[[int, int], int],
) -> tuple[int, int]:
    """Return (worst level, sum of levels). `asks`: (devices, how many); `capacity`: most of a cell and mask at once."""
    worst = total = 0
    every = 0
    wanted = 0
    for mask, count in asks:
        every |= mask
        wanted += count
        if chosen:
            level, levels = _towards(mask, count, chosen, distances, capacity)
            worst, total = max(worst, level), total + levels
    if wanted > 1:
        level, levels = _among(every, wanted, distances, capacity)
        worst, total = max(worst, level), total + levels
    return worst, total


def _towards(
    mask: int,
    count: int,
    chosen: Sequence[int],
    distances: NodeDistances,
    capacity: Callable[[int, int], int],
) -> tuple[int, int]:
    """Return the levels between the nearest devices that suffice and those chosen."""
    near: list[tuple[int, int, int]] = []
    for cell, devices in enumerate(distances.cells):
        if devices & mask:
            row = distances.levels[cell]
            # Another share of a chosen device is closer than any other device of its cell.
            levels = [0 if devices & mask & 1 << index else row[distances.cell_of[index]] for index in chosen]
            near.append((sum(levels), max(levels), capacity(cell, mask)))
    return _first(sorted((most, room) for _, most, room in near), count)[0], _first(
        sorted((sum_, room) for sum_, _, room in near), count
    )[1]


def _first(rows: Sequence[tuple[int, int]], count: int) -> tuple[int, int]:
    """Return the value of the last one, and the sum, when so many are taken from the front."""
    last = total = 0
    for value, room in rows:
        taken = min(room, count)
        if taken:
            last, total, count = value, total + value * taken, count - taken
        if not count:
            break
    return last, total


def _among(
    mask: int, count: int, distances: NodeDistances, capacity: Callable[[int, int], int]
) -> tuple[int, int]:
    """Return the levels among so many devices that sit as close as the cells allow."""
    rooms = {cell: capacity(cell, mask) for cell, devices in enumerate(distances.cells) if devices & mask}
    if not rooms:
        return 0, 0
    pairs = count * (count - 1) // 2
    worst = total = 0
    for level, around in enumerate(distances.around):
        if distances.nested[level]:
            sizes = sorted(
                (
                    sum(rooms.get(cell, 0) for cell in near)
                    for near in dict.fromkeys(around[cell] for cell in rooms)
                ),
                reverse=True,
            )
            close = _packed(sizes, count)
        elif len(rooms) <= FEW:
            sizes = [max(sum(rooms.get(other, 0) for other in around[cell]) for cell in rooms)]
            # Each device has at most so many others near, so that many pairs at most are not farther apart.
            close = min(pairs, count * (min(sizes[0], count) - 1) // 2)
        else:
            sizes, close = [count], pairs
        if sizes[0] < count:
            worst = level + 1
        total += pairs - close
    return worst, total


def _packed(sizes: Sequence[int], count: int) -> int:
    """Return how many pairs sit in one group at most, when the largest groups are filled first."""
    pairs = 0
    for size in sizes:
        here = min(size, count)
        pairs += here * (here - 1) // 2
        count -= here
    return pairs
