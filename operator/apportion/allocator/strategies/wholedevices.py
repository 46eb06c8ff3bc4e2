"""What a node would answer to a claim for whole devices under LeastFragmentation, told without choosing the devices.

In: a node's view, a shape. Out: the search's outcome but for its picks, or None where only the search can tell. Scores
depend on which devices are chosen only where the demand tells those apart that would do; a glance is for the others.
So nodes are compared by glances, and the best one alone is searched.
"""

from typing import TYPE_CHECKING, NamedTuple

from apportion.allocator.node.nodeview import NodeView, SelectorLookup
from apportion.allocator.pricing.prices import MOST_KEPT, NodePrices
from apportion.allocator.rules.query import Alternative, NamedQuery
from apportion.allocator.search.outcome import NOTHING, Outcome, Solved
from apportion.allocator.search.scorer import Contention

if TYPE_CHECKING:
    from apportion.allocator.strategies.least_fragmentation import LeastFragmentation


class SlotDevices(NamedTuple):
    """What one slot takes."""

    mask: int
    """The devices that would do."""
    number: int
    want: Alternative
    bound: bool
    """Whether the constraint covers it."""


class WantedDevices:
    """What a claim wants of nodes of a kind; the same object for all kinds of which it wants the same."""

    __slots__ = ("attribute", "parts", "pools", "total")

    def __init__(self, parts: tuple[SlotDevices, ...], pools: int, attribute: str | None) -> None:
        self.parts = parts
        self.pools = pools
        """Every device of the pools that it takes from."""
        self.attribute = attribute
        """In which the devices must agree."""
        self.total = sum(part.number for part in parts)


class WholeDeviceEstimate:
    """One outlook's glances, each remembered by what is seen."""

    def __init__(self, scorer: "LeastFragmentation") -> None:
        self._scorer = scorer
        self._same: dict[object, WantedDevices] = {}
        """What claims want whose selectors each node answers for itself, by what these accept."""
        self._known: dict[
            tuple[NodePrices, WantedDevices], tuple[Contention, dict[tuple[int, int], Outcome]] | None
        ] = {}

    def outcome(self, view: NodeView, shape: NamedQuery, answers: SelectorLookup) -> Outcome | None:
        """Return what the search would answer, without picks where it would find some."""
        wanted = self._wanted(view, shape, answers)
        if wanted is None:
            return None
        sight = self._scorer.outlook.sight(view)
        key = sight, wanted
        if key not in self._known:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            harm = self._harm(sight, wanted)
            self._known[key] = None if harm is None else (harm, {})
        known = self._known[key]
        if known is None:
            return None
        if wanted.attribute is not None and not _agree(view, wanted, wanted.attribute):
            return NOTHING
        harm, outcomes = known
        state = view.open, view.exclusive
        found = outcomes.get(state)
        if found is None:
            if len(outcomes) >= MOST_KEPT:
                outcomes.clear()
            found = outcomes[state] = self._rate(view, sight, wanted, harm)
        return found

    def _wanted(self, view: NodeView, shape: NamedQuery, answers: SelectorLookup) -> WantedDevices | None:
        """Return what is wanted of the node; None where it takes more than whole devices, or more than one way."""
        kind = view.kind
        meaning = shape.meaning
        if kind is None:
            return None
        if meaning in kind.wanted:
            return kind.wanted[meaning]
        reads = [answers(text).reads for text in meaning.texts]
        if not kind.covers(reads):
            found = _read(view, shape, answers)
            if found is None:
                return None
            if len(self._same) >= MOST_KEPT:
                self._same.clear()
            key = meaning, view.anatomy, tuple([part.mask for part in found.parts])
            return self._same.setdefault(key, found)
        names = sorted({name for read in reads for _, name in read or ()})
        found = kind.table(("wanted", meaning), names, lambda: _read(view, shape, answers))
        if len(kind.wanted) >= MOST_KEPT:
            kind.wanted.clear()
        kind.wanted[meaning] = found
        return found

    def _harm(self, sight: NodePrices, wanted: WantedDevices) -> Contention | None:
        """Return what any choice takes from others; None where choices differ to the demand."""
        for seen in (*(place.mask for place in sight.places), *sight.reaches):
            for part in wanted.parts:
                if seen & part.mask not in (0, part.mask):
                    return None
        takes = [
            (part.want, part.mask & -part.mask)
            for part in wanted.parts
            if part.mask
            for _ in range(part.number)
        ]
        return self._scorer.harm_of(sight, takes)

    def _rate(self, view: NodeView, sight: NodePrices, wanted: WantedDevices, harm: Contention) -> Outcome:
        whole = 0
        for part in wanted.parts:
            open_ = part.mask & view.open
            for _ in range(part.number):
                # Any will do: the demand does not tell them apart.
                whole |= open_ & -open_
                open_ &= open_ - 1
        if whole.bit_count() < wanted.total:
            return NOTHING
        left = (wanted.pools & view.open).bit_count() - wanted.total
        score = 0, self._scorer.lost_whole(view, sight, whole), left
        return Solved((0,) * len(wanted.parts), score, (), harm, chosen=False)


def _read(view: NodeView, shape: NamedQuery, answers: SelectorLookup) -> WantedDevices | None:
    rules = shape.rules
    if not shape.slots or not shape.meaning.plain or view.peculiar:
        return None
    if len(rules) > 1 or any(rule.distinct for rule in rules):
        return None
    parts: list[SlotDevices] = []
    seen = pools = 0
    for slot in shape.slots:
        want = slot.wants[0]
        mask, errors = view.selected(want, answers)
        mask &= view.tolerating(want.tolerations)
        homes = [pool for pool in view.anatomy.pool_masks if pool & mask]
        if errors or len(slot.wants) > 1 or len(homes) > 1 or mask & (seen | view.shareable | ~view.plain):
            return None
        seen |= mask
        pools |= view.holding(mask)
        parts.append(SlotDevices(mask, want.count, want, bool(want.rules)))
    return WantedDevices(tuple(parts), pools, rules[0].attribute if rules else None)


def _agree(view: NodeView, wanted: WantedDevices, attribute: str) -> bool:
    """Say whether enough devices agree."""
    bound = [(part.mask & view.open, part.number) for part in wanted.parts if part.bound]
    return any(
        all((row & open_).bit_count() >= number for open_, number in bound)
        for row in view.values(attribute).values()
    )
