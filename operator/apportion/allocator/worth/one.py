"""LeastFragmentation for the commonest claim, one device by its selectors: the same choice and score as the search.

In: a node's view, a shape, an outlook. Out: what the search would answer, or None where only the search can tell. The
best pick of a group of devices that share counters is known by the group's spot, so a node costs one look-up a group.
"""

from apportion.allocator.outcome import BROKEN, NOTHING, Outcome, Solved
from apportion.allocator.plan import Plan, plan
from apportion.allocator.shape import Shape
from apportion.allocator.single import nearest, solved
from apportion.allocator.spot import LOST, Best, Spot
from apportion.allocator.view import Answering, NodeView
from apportion.allocator.worth.outlook import MOST_KEPT, Outlook, Stock

Row = tuple[int, int, dict[Spot, Best], Stock]
"""A group, the bits of its devices that may be taken, what was found out about its spots, its prices."""


_MOST = LOST * LOST
"""Beyond any loss."""


class Priced:
    """A plan under one outlook."""

    __slots__ = ("plain", "plan", "ways")

    def __init__(self, made: Plan, view: NodeView, stocks: tuple[Stock, ...]) -> None:
        self.plan = made
        self.plain = any(way.plain for way in made.ways)
        """Whether devices without counters may be taken, too: another claim."""
        self.ways: tuple[tuple[int, tuple[Row, ...]], ...] = tuple(
            (
                sum(view.groups[number].spread(mask) for number, mask in way.groups),
                tuple(
                    (number, mask, stocks[number].bests(mask), stocks[number]) for number, mask in way.groups
                ),
            )
            for way in made.ways
        )
        """Per alternative the devices that may be taken, and their groups."""


class One:
    """One outlook's answers."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook

    def outcome(self, view: NodeView, shape: Shape, answers: Answering, *, shared: bool) -> Outcome | None:
        """Return the node's outcome for a shape of one slot that asks for one device with counters."""
        made = plan(view, shape, answers, shared=shared)
        if made is None:
            return None
        sight = self._outlook.sight(view)
        known = sight.priced
        # Several kinds may share a sight; a plan is of one kind, or of one node.
        priced = known.get(made)
        if priced is None:
            if len(known) >= MOST_KEPT:
                known.clear()
            priced = known[made] = Priced(made, view, sight.stocks)
        if priced.plain:
            return None
        for number, (mask, rows) in enumerate(priced.ways):
            if view.open & mask:
                return _take(view, priced.plan, number, rows)
        return NOTHING if view.invalid is None else BROKEN


def _take(view: NodeView, made: Plan, want: int, rows: tuple[Row, ...]) -> Solved:
    """Take what is open: the least worth lost, the least left around, the most crowded place, the first."""
    groups = view.groups
    least = _MOST
    best: list[tuple[int, tuple[int, ...]]] = []
    for number, mask, bests, stock in rows:
        spot = groups[number].spot
        found = bests.get(spot)
        if found is None:
            found = stock.best(spot, mask)
        if not found:
            continue
        key = found[0]
        if key < least:
            least = key
            best = [(number, found[1])]
        elif key == least:
            best.append((number, found[1]))
    if len(best) > 1 or len(best[0][1]) > 1:
        index = nearest(view, best)
    else:
        number, locals_ = best[0]
        index = groups[number].members[locals_[0]]
    return solved(view, made, want, index, least // LOST)
