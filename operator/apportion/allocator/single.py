"""Pack for the commonest claim, one device by its selectors: the same choice and score as the search, without it.

In: a node's view, a shape. Out: what the search would answer, or None where only the search can tell. Per group of
devices that share counters the best pick is known by the group's state, so a node costs one look-up per group.
"""

from apportion.allocator.outcome import BROKEN, NOTHING, Outcome, Solved
from apportion.allocator.search import Pick
from apportion.allocator.shape import Shape
from apportion.allocator.view import Answering, NodeView


def single(view: NodeView, shape: Shape, answers: Answering, *, shared: bool) -> Outcome | None:
    """Return the node's outcome for a shape of one slot that asks for one device.

    `shared`: nodes of one kind answer alike, so what may be taken is found out once per kind.
    """
    meaning = shape.meaning
    if not shared or view.kind is None:
        masks = _open(view, shape, answers)
    elif meaning in view.kind.open:
        masks = view.kind.open[meaning]
    else:
        masks = view.kind.remember(meaning, _open(view, shape, answers))
    if masks is None:
        return None
    free = ~view.exclusive & view.fit
    for number, mask in enumerate(masks):
        index = _best(view, mask & free, mask)
        if index is not None:
            return _taken(view, number, index)
    return NOTHING if view.invalid is None else BROKEN


def _open(view: NodeView, shape: Shape, answers: Answering) -> tuple[int, ...] | None:
    if len(shape.slots) != 1 or shape.rules or not shape.meaning.plain or view.limited:
        return None
    masks: list[int] = []
    for want in shape.slots[0].wants:
        mask, errors = view.selected(want, answers)
        if errors or want.count != 1:
            return None
        masks.append(mask & view.tolerating(want.tolerations))
    return tuple(masks)


def _best(view: NodeView, open_: int, mask: int) -> int | None:
    """Return the device to take: the least worth lost, the least left around, the most crowded place, the first."""
    if not open_:
        return None
    least: tuple[int, int] | None = None
    found: list[int] = []
    groups = view.groups
    layout = view.layout
    for number in layout.groups_of(mask, view):
        group = groups[number]
        local = group.gather(open_)
        if not local:
            continue
        state = group.state
        lost, first, locals_ = state.cheapest(local)
        key = lost, state.worth
        if least is None or key < least:
            least = key
            found.clear()
        elif key > least:
            continue
        if layout.compact[number]:
            found.append(group.members[first])
        else:
            found.extend(group.members[one] for one in locals_)
    plain = open_ & view.plain
    if plain:
        key = 0, 1
        if least is None or key <= least:
            if least != key:
                found.clear()
            found.extend(layout.firsts(plain))
    if len(found) == 1:
        return found[0]
    free = view.base & ~view.exclusive
    crowd = layout.crowd
    return min((crowd(index, free), index) for index in found)[1]


def _taken(view: NodeView, want: int, index: int) -> Solved:
    bit = 1 << index
    fit, lost = view.fit, 0
    place = view.group_of.get(index)
    if place is not None:
        group = view.groups[place[0]]
        after = group.state.after(place[1])
        lost = group.state.worth - after.worth
        fit = fit & ~group.mask | group.spread(after.fits)
    left = view.holding(bit) & fit & ~view.exclusive & ~bit
    return Solved((want,), (0, lost, left.bit_count()), (Pick(0, want, index),))
