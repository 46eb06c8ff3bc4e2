"""A lower bound of the closeness cost that the devices still to be chosen add.

In: the devices that each remaining slot may take, and the devices chosen. Out: a worst level and a sum of levels, never
greater than those of the best choice.
"""

from collections.abc import Callable, Sequence

from apportion.allocator.closeness.distances import NodeDistances

FEW = 24
"""Most cells for which levels that are not nested are counted."""


def least(
    requests: Sequence[tuple[int, int]],
    chosen: Sequence[int],
    distances: NodeDistances,
    capacity: Callable[[int, int], int],
) -> tuple[int, int]:
    """Return (worst level, sum of levels). `requests`: (mask, count); `capacity`: most devices of a cell and mask together."""
    worst = total = 0
    all_devices = 0
    needed = 0
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for mask, count in requests:
        all_devices |= mask
        needed += count
        if chosen:
            key = mask, count
            if key not in known:
                known[key] = _towards(mask, count, chosen, distances, capacity)
            level, levels = known[key]
            worst, total = max(worst, level), total + levels
    if needed > 1:
        level, levels = _among(all_devices, needed, distances, capacity)
        worst, total = max(worst, level), total + levels
    return worst, total


def _towards(
    mask: int,
    count: int,
    chosen: Sequence[int],
    distances: NodeDistances,
    capacity: Callable[[int, int], int],
) -> tuple[int, int]:
    """Return a bound of the levels between `count` devices of the mask and the chosen ones."""
    near: list[tuple[int, int, int]] = []
    for cell, devices in enumerate(distances.cells):
        if devices & mask:
            row = distances.levels[cell]
            # Another share of a chosen device is on level 0, closer than any other device of its cell.
            levels = [0 if devices & mask & 1 << index else row[distances.cell_of[index]] for index in chosen]
            near.append((sum(levels), max(levels), capacity(cell, mask)))
    return _front(sorted((most, room) for _, most, room in near), count)[0], _front(
        sorted((sum_, room) for sum_, _, room in near), count
    )[1]


def _front(rows: Sequence[tuple[int, int]], count: int) -> tuple[int, int]:
    """Take `count` from the front of (value, room) rows; return the last value taken, and the sum."""
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
    """Return a bound of the levels among `count` devices of the mask."""
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
            # No device has more than `sizes[0] - 1` others on this level, which bounds the pairs on it.
            close = min(pairs, count * (min(sizes[0], count) - 1) // 2)
        else:
            sizes, close = [count], pairs
        if sizes[0] < count:
            worst = level + 1
        total += pairs - close
    return worst, total


def _packed(sizes: Sequence[int], count: int) -> int:
    """Return the most pairs within one group: the largest groups are filled first."""
    pairs = 0
    for size in sizes:
        inside = min(size, count)
        pairs += inside * (inside - 1) // 2
        count -= inside
    return pairs
