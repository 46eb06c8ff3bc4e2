"""diagnose(): what one node lacks for a query: the first request that fails, and the check at which it fails.

In: a node's view, a query. Out: a Diagnosis with counts. Nothing is searched: requests are checked one by one, then constraints.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from apportion.allocator.bits import bits
from apportion.allocator.explain.explanation import (
    LISTED,
    ConstraintReport,
    RefusalReason,
    RequestReport,
    Shortage,
    Step,
)
from apportion.allocator.explain.unmetconstraint import unmet
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.node.template import why_unusable
from apportion.allocator.rules.pools import amount
from apportion.allocator.rules.query import Alternative, ErrorCause, NamedQuery
from apportion.allocator.state import State
from apportion.dra.taint import untolerated

_MANY = 10**9
"""More than a node has devices."""
REASONS: tuple[RefusalReason, ...] = get_args(RefusalReason)
STAGES = REASONS[: REASONS.index("together") + 1]
"""The checks, in order: "nothing" to "together"."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reason why one node cannot serve."""

    kind: RefusalReason
    slot: int = -1
    alternative: int = 0
    constraint_index: int = -1
    request: RequestReport | None = None
    constraint: ConstraintReport | None = None
    message: str = ""
    progress: tuple[int, int] = (0, 0)
    """How near the node came: the failed stage, and the number of devices that reached it."""


@dataclass(frozen=True, slots=True)
class Funnel:
    """Devices that pass each stage of the checks for one request, as masks."""

    matching: int
    untainted: int
    unheld: int
    roomy: int
    free: int

    def failed(self, wanted: int) -> RefusalReason | None:
        """Return the first stage that leaves too few."""
        masks = self.matching, self.untainted, self.unheld, self.roomy, self.free
        for kind, mask in zip(STAGES[1 : STAGES.index("constraint")], masks, strict=True):
            if mask.bit_count() < wanted:
                return kind
        return None


def funnel(state: State, view: NodeView, alternative: Alternative) -> Funnel:
    """Return the devices of a node that pass each check for one alternative."""
    matching, _ = view.selected(alternative, state.selectors)
    # Devices that are never allocated there are refused with the counters, like upstream those that consume some while the feature is off.
    unusable = matching & ~view.base
    untainted = matching & view.tolerating(alternative.tolerations) | unusable
    unheld = untainted if alternative.admin else untainted & ~view.exclusive
    roomy = unheld
    if view.features.consumable_capacity and (alternative.capacity or unheld & view.limited):
        for index in bits(unheld):
            taken = view.charge(index, alternative)
            if taken is None or isinstance(taken, ErrorCause) or not view.roomy(index, taken):
                roomy &= ~(1 << index)
    free = roomy & view.base & (-1 if alternative.admin else view.fit)
    return Funnel(matching, untainted, unheld, roomy, free)


def diagnose(state: State, named: NamedQuery, view: NodeView) -> Diagnosis:
    """Return what the node lacks first."""
    if not view.template.visible:
        return Diagnosis("nothing")
    funnels: dict[Alternative, Funnel] = {}
    for number, slot in enumerate(named.query.slots):
        failed: list[tuple[int, Funnel, RefusalReason]] = []
        for position, alternative in enumerate(slot.alternatives):
            found = funnels.get(alternative)
            if found is None:
                found = funnels[alternative] = funnel(state, view, alternative)
            wanted = max(found.matching.bit_count(), 1) if alternative.everything else alternative.count
            reason = found.failed(wanted)
            if reason is None:
                break
            failed.append((position, found, reason))
        else:
            # Only what a request lacks that fails is looked at closely.
            lacks = [
                _lacking(state, named, view, (number, position), found, reason)
                for position, found, reason in failed
            ]
            return max(lacks, key=lambda each: each.progress)
    constraint = unmet(state, named, view)
    if constraint is not None:
        values = constraint.report.values
        return Diagnosis(
            "constraint",
            slot=constraint.slot,
            constraint_index=constraint.number,
            constraint=constraint.report,
            progress=(STAGES.index("constraint"), values[0][1] if values else 0),
        )
    return Diagnosis(
        "together",
        message="every request could be served alone, but not all of them together",
        progress=(len(STAGES), view.base.bit_count()),
    )


def _lacking(
    state: State,
    named: NamedQuery,
    view: NodeView,
    where: tuple[int, int],
    found: Funnel,
    reason: RefusalReason,
) -> Diagnosis:
    report = _report(state, named, view, where, found)
    stage = STAGES.index(reason)
    passed = _depth(report), report.matching, report.untainted, report.unheld, report.roomy, report.free
    report = replace(report, on_one_node=passed[stage])
    return Diagnosis(reason, *where, request=report, progress=(stage, passed[stage - 1]))


def _depth(report: RequestReport) -> int:
    """Return the number of selectors that some device passed, times `_MANY`, plus the devices that passed the last of them."""
    passed = [report.looked, *(step.passed for step in report.steps)]
    reached = max(number for number, count in enumerate(passed) if count or not number)
    return reached * _MANY + passed[reached]


def _report(
    state: State, named: NamedQuery, view: NodeView, where: tuple[int, int], found: Funnel
) -> RequestReport:
    alternative = named.query.slots[where[0]].alternatives[where[1]]
    steps = tuple(
        Step(*selector, passed.bit_count())
        for selector, passed in zip(
            selectors_of(alternative), view.prefixes(alternative, state.selectors), strict=True
        )
    )
    return RequestReport(
        claim=named.names.slots[where[0]][0].key,
        request=named.names.label(*where),
        device_class=named.names.request(*where).device_class,
        wanted=None if alternative.everything else alternative.count,
        looked=view.template.visible.bit_count(),
        steps=steps,
        matching=found.matching.bit_count(),
        untainted=found.untainted.bit_count(),
        unheld=found.unheld.bit_count(),
        roomy=found.roomy.bit_count(),
        free=found.free.bit_count(),
        taints=_taints(view, alternative, found.matching & ~found.untainted),
        holders=_holders(state, view, found),
        shortages=_shortages(view, found.roomy & ~found.free),
        unusable=_unusable(view, found.roomy & ~found.free & ~view.base),
    )


def selectors_of(alternative: Alternative) -> Iterator[tuple[Literal["class", "request"], int, str]]:
    """Yield owner, number and text of each selector, those of the class first."""
    for number, text in enumerate(alternative.class_selectors):
        yield "class", number, text
    for number, text in enumerate(alternative.selectors):
        yield "request", number, text


def _taints(view: NodeView, alternative: Alternative, tainted: int) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for index in bits(tainted):
        taint = untolerated(view.template.taints.get(index, ()), alternative.tolerations)
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            counts[f"{taint.key}{value}:{taint.effect}"] += 1
    return tuple(counts.most_common(LISTED))


def _holders(state: State, view: NodeView, found: Funnel) -> tuple[str, ...]:
    """Return some holders of matching devices, or of other devices on the same counters."""
    mask = found.untainted & ~found.free
    if found.unheld & ~found.free:
        for group in view.groups:
            if group.mask & found.roomy & ~found.free:
                mask |= group.mask & (view.exclusive | view.charged)
    keys: dict[str, None] = {}
    for index in bits(mask & (view.exclusive | view.charged)):
        for key in state.holders(view.id_of(index)):
            keys[key] = None
            if len(keys) == LISTED:
                return tuple(keys)
    return tuple(keys)


def _shortages(view: NodeView, short: int) -> tuple[Shortage, ...]:
    least: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for index in bits(short):
        for name, missing in shortages(view, index):
            counts[name] += 1
            least[name] = min(missing, least.get(name, missing))
    return tuple(Shortage(name, amount(least[name]), count) for name, count in counts.most_common(LISTED))


def _unusable(view: NodeView, refused: int) -> tuple[tuple[str, int], ...]:
    counts = Counter(
        why_unusable(view.piece_of(index), view.devices[index], view.node) for index in bits(refused)
    )
    return tuple(counts.most_common(LISTED))


def shortages(view: NodeView, index: int) -> list[tuple[str, int]]:
    """Return the counters that are short for a device, with the missing amount in 10^-9."""
    place = view.group_of.get(index)
    if place is None:
        return []
    group = view.groups[place[0]]
    return [
        (group.counters[counter][1], need - group.state.left[counter])
        for counter, need in group.group_type.needs[place[1]]
        if group.state.left[counter] < need
    ]
