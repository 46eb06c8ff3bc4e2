"""LeastFragmentation for the commonest claim, one device by its selectors: the same choice and score as the search.

In: a node's view, a shape, an outlook. Out: what the search would answer, or None where only the search can tell. The
best pick of a group of devices that share counters is known by the group's state, so a node costs one look-up a group.
"""

from apportion.allocator.outcome import BROKEN, NOTHING, Outcome, Solved
from apportion.allocator.search import Pick
from apportion.allocator.shape import Shape
from apportion.allocator.view import Answering, NodeView
from apportion.allocator.worth.outlook import MOST_KEPT, Outlook, Sight

Way = tuple[tuple[int, int], ...]
"""(group, bits of its devices) wherever there is something to take."""


class One:
    """One outlook's answers; what may be taken is remembered with the kind of node."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook

    def outcome(self, view: NodeView, shape: Shape, answers: Answering, *, shared: bool) -> Outcome | None:
        """Return the node's outcome for a shape of one slot that asks for one device with counters."""
        if not shared or view.kind is None:
            ways = _ways(view, shape, answers)
        else:
            known = view.kind.ways
            if shape.meaning not in known:
                if len(known) >= MOST_KEPT:
                    known.clear()
                known[shape.meaning] = _ways(view, shape, answers)
            ways = known[shape.meaning]
        if ways is None:
            return None
        sight = self._outlook.sight(view)
        for number, way in enumerate(ways):
            found = _take(view, sight, number, way)
            if found is not None:
                return found
        return NOTHING if view.invalid is None else BROKEN


def _ways(view: NodeView, shape: Shape, answers: Answering) -> tuple[Way, ...] | None:
    if len(shape.slots) != 1 or shape.rules or not shape.meaning.plain or view.limited:
        return None
    ways: list[Way] = []
    for want in shape.slots[0].wants:
        mask, errors = view.selected(want, answers)
        mask &= view.tolerating(want.tolerations)
        if errors or want.count != 1 or mask & view.plain:
            return None
        ways.append(
            tuple(
                (number, group.gather(mask)) for number, group in enumerate(view.groups) if group.mask & mask
            )
        )
    return tuple(ways)


def _take(view: NodeView, sight: Sight, want: int, way: Way) -> Solved | None:
    """Take the least worth lost, the least left around, the most crowded place, the first."""
    groups, stocks = view.groups, sight.stocks
    least: tuple[int, int] | None = None
    best: list[tuple[int, tuple[int, ...]]] = []
    for number, mask in way:
        group = groups[number]
        open_ = mask & group.state.fits & ~group.gather(view.exclusive)
        if not open_:
            continue
        lost, around, locals_ = stocks[number].best(group.state, open_)
        key = lost, around
        if least is None or key < least:
            least = key
            best = [(number, locals_)]
        elif key == least:
            best.append((number, locals_))
    if least is None:
        return None
    layout = view.layout
    found: list[int] = []
    for number, locals_ in best:
        members = groups[number].members
        found += [members[locals_[0]]] if layout.compact[number] else [members[one] for one in locals_]
    index = found[0]
    if len(found) > 1:
        free = view.base & ~view.exclusive
        crowd = layout.crowd
        index = min((crowd(one, free), one) for one in found)[1]
    number, local = view.group_of[index]
    group = groups[number]
    after = group.state.after(local)
    bit = 1 << index
    fit = view.fit & ~group.mask | group.spread(after.fits)
    left = view.holding(bit) & fit & ~view.exclusive & ~bit
    return Solved((want,), (0, least[0], left.bit_count()), (Pick(0, want, index),))
