"""Pack for the commonest claim, one device by its selectors: the same choice and score as the search, without it.

In: a node's view, a shape. Out: what the search would answer, or None where only the search can tell. Per group of
devices that share counters the best pick is known by the group's spot, so a node costs one look-up per group.
"""

from apportion.allocator.node.groupoccupancy import LOSS_WEIGHT
from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import BROKEN, NOTHING, Outcome, Solved
from apportion.allocator.search.singleplan import AlternativePlan, SinglePlan, single_plan

_PLAIN = 1
"""A device without counters: nothing is lost, and it is worth one."""


def single_device(
    view: NodeView, shape: NamedQuery, answers: SelectorLookup, *, shared: bool
) -> Outcome | None:
    """Return the node's outcome for a shape of one slot that asks for one device.

    `shared`: nodes of one kind answer alike, so what may be taken is found out once per kind.
    """
    made = single_plan(view, shape, answers, shared=shared)
    if made is None:
        return None
    for number, way in enumerate(made.ways):
        found = _take(view, made, number, way)
        if found is not None:
            return found
    return NOTHING if view.invalid is None else BROKEN


def _take(view: NodeView, made: SinglePlan, want: int, way: AlternativePlan) -> Solved | None:
    """Take the least worth lost, the least left around, the most crowded place, the first."""
    groups = view.groups
    least = -1
    best: list[tuple[int, tuple[int, ...]]] = []
    for number, mask in way.groups:
        spot = groups[number].spot
        found = spot.bests.get(mask)
        if found is None:
            found = spot.best(mask)
        if not found:
            continue
        key = found[0]
        if key == least:
            best.append((number, found[1]))
        elif key < least or least < 0:
            least = key
            best = [(number, found[1])]
    plain = way.plain & view.open
    if plain and (least < 0 or least >= _PLAIN):
        if least != _PLAIN:
            best.clear()
        least = _PLAIN
    elif least < 0:
        return None
    else:
        plain = 0
    if plain or len(best) > 1 or len(best[0][1]) > 1:
        index = nearest(view, best, plain)
    else:
        number, locals_ = best[0]
        index = groups[number].members[locals_[0]]
    return solved(view, made, want, index, least // LOSS_WEIGHT)


def solved(view: NodeView, made: SinglePlan, want: int, index: int, lost: int) -> Solved:
    """Return what it comes to when the device is taken."""
    anatomy = view.anatomy
    place = anatomy.group_of.get(index)
    if place is None:
        left = (view.open & view.holding(1 << index)).bit_count() - 1
        return made.solved(want, index, lost, left)
    spot = view.groups[place[0]].spot
    around = (view.open & anatomy.pool_masks[anatomy.pool_of_group[place[0]]]).bit_count()
    return made.solved(want, index, lost, around - spot.room + spot.take(place[1]).room)


def nearest(view: NodeView, best: list[tuple[int, tuple[int, ...]]], plain: int = 0) -> int:
    """Return the device in the most crowded place, the first there: of these of the groups, and of the plain ones."""
    compact = view.layout.compact
    wanted = plain
    for number, locals_ in best:
        members = view.groups[number].members
        if compact[number]:
            wanted |= 1 << members[locals_[0]]
        else:
            for local in locals_:
                wanted |= 1 << members[local]
    if not wanted & wanted - 1:
        return wanted.bit_length() - 1
    here = next(found for places in view.crowded if (found := places & wanted))
    return (here & -here).bit_length() - 1
