"""explain(): why nodes cannot serve a query: what each lacks first, and the device that comes nearest.

In: a state, a query, the outcomes of the nodes. Out: an Explanation. The cost is bounded: at most EXAMINED nodes are
examined, first those with an error, a broken pool or an exhausted search.
"""

from collections.abc import Container, Mapping, MutableMapping, Sequence
from dataclasses import replace

from apportion.allocator.explain.diagnosis import STAGES, Diagnosis, diagnose
from apportion.allocator.explain.explanation import Explanation, NodeGroup, RequestReport, Step
from apportion.allocator.explain.nearestmiss import nearest_miss
from apportion.allocator.rules.query import NamedQuery, NodeError
from apportion.allocator.search.outcome import BROKEN, CUT_SHORT, EXHAUSTED, NOTHING, Outcome
from apportion.allocator.state import State

EXAMINED = 128
"""Nodes examined for one explanation; about 10 ms."""
LOOKS = 8
"""What it takes to check one request on a node, in looks at one device's capacity."""
LOOKS_IN_ALL = 4 * LOOKS * EXAMINED
"""Looks for one explanation, if more than one node is examined; about 20 ms."""
MOST_GROUPS = 8
"""Groups of nodes reported."""
WITHOUT_FAILED = (
    "it could be served, but not without the devices that are left out for a while, because they failed"
)
"""Why a node that has what is asked for does not give it."""
NAMES = 5
"""Node names listed per group."""


def explain(
    state: State,
    named: NamedQuery,
    names: Sequence[str],
    outcomes: Mapping[str, Outcome],
    diagnoses: MutableMapping[object, Diagnosis] | None = None,
    barred: Container[str] = (),
) -> Explanation:
    """Return why none of the nodes can serve.

    `names`: in order. `outcomes`: those that have another reason than too few devices. `diagnoses`: kept ones by query and node state, which grow by those made here; nodes of one state have
    equal diagnoses. `barred`: nodes that could serve with the devices that the demand excludes.
    """
    claims = tuple(claim.key for claim in named.names.claims)
    most = _most_examined(state, named, names)
    examined = names[:most]
    if outcomes:
        examined = [name for name in names if name in outcomes][:most]
        examined += [name for name in names if name not in outcomes][: most - len(examined)]
    groups: dict[object, list[tuple[str, Diagnosis]]] = {}
    for name in examined:
        found = _kept_diagnosis(state, named, name, outcomes.get(name, NOTHING), diagnoses)
        if name in barred and found.kind == "together":
            found = replace(found, message=WITHOUT_FAILED)
        groups.setdefault(
            (found.kind, found.slot, found.alternative, found.constraint_index, found.message), []
        ).append((name, found))
    # The nearest to success first: the latest stage, then the most devices that reached it.
    ranked = sorted(groups.values(), key=lambda rows: max(row.progress for _, row in rows), reverse=True)
    nearest = None
    for rows in ranked[:MOST_GROUPS]:
        # The report of a group names claims and holders of one node: diagnose this node anew.
        place = max(range(len(rows)), key=lambda number: rows[number][1].progress)
        name = rows[place][0]
        best = _diagnose(state, named, name, outcomes.get(name, NOTHING))
        if best.kind == "together":
            best = replace(best, message=rows[place][1].message)
        rows[place] = name, best
        if nearest is None and rows is ranked[0]:
            nearest = nearest_miss(state, named, name, best)
    return Explanation(
        claims,
        len(names),
        len(examined),
        tuple(_group(rows) for rows in ranked[:MOST_GROUPS]),
        nearest,
    )


def _most_examined(state: State, named: NamedQuery, names: Sequence[str]) -> int:
    """Return how many nodes are examined: fewer where many requests differ, each of which is checked, by capacity on each device."""
    devices = len(state.view(names[0]).devices) if names else 0
    looks = sum([LOOKS + bool(each.capacity) * devices for each in set(named.query.alternatives)])
    return max(1, min(EXAMINED, LOOKS_IN_ALL // looks))


def _kept_diagnosis(
    state: State,
    named: NamedQuery,
    name: str,
    outcome: Outcome,
    diagnoses: MutableMapping[object, Diagnosis] | None,
) -> Diagnosis:
    if diagnoses is None or isinstance(outcome, NodeError):
        return _diagnose(state, named, name, outcome)
    key = named.query, state.node_states.of(name)
    found = diagnoses.get(key)
    if found is None:
        found = _diagnose(state, named, name, outcome)
        if not state.view(name).unclassifiable:
            diagnoses[key] = found
    return found


def _diagnose(state: State, named: NamedQuery, name: str, outcome: Outcome) -> Diagnosis:
    view = state.view(name)
    if isinstance(outcome, NodeError):
        return Diagnosis(
            "error",
            outcome.slot,
            message=str(outcome.as_broken_input(named.names)),
            progress=(len(STAGES), 0),
        )
    if outcome is EXHAUSTED or outcome is CUT_SHORT:
        return Diagnosis("budget", message="the search gave up within its steps", progress=(len(STAGES), 0))
    found = diagnose(state, named, view)
    if outcome is BROKEN and view.invalid is not None and found.kind in {"nothing", "selector"}:
        return replace(found, kind="pool", message=f"pool {view.invalid.id}: {view.invalid.invalid}")
    if view.incomplete is not None and found.kind in {"nothing", "selector"}:
        return replace(
            found, kind="pool", message=f"pool {view.incomplete}: not all of its slices are there yet"
        )
    return found


def _group(rows: Sequence[tuple[str, Diagnosis]]) -> NodeGroup:
    first = max(rows, key=lambda row: row[1].progress)[1]
    reports = [found.request for _, found in rows if found.request is not None]
    return NodeGroup(
        kind=first.kind,
        count=len(rows),
        nodes=tuple(name for name, _ in rows[:NAMES]),
        request=_sum(first.request, reports) if first.request is not None else None,
        constraint=first.constraint,
        message=first.message,
    )


def _sum(first: RequestReport, reports: Sequence[RequestReport]) -> RequestReport:
    """Return the first report with the counts of all nodes added; taints, holders and shortages stay the nearest node's."""
    return replace(
        first,
        looked=sum([report.looked for report in reports]),
        steps=tuple(
            Step(step.owner, step.number, step.text, sum([report.steps[number].passed for report in reports]))
            for number, step in enumerate(first.steps)
        ),
        matching=sum([report.matching for report in reports]),
        untainted=sum([report.untainted for report in reports]),
        unheld=sum([report.unheld for report in reports]),
        roomy=sum([report.roomy for report in reports]),
        free=sum([report.free for report in reports]),
        on_one_node=max(report.on_one_node for report in reports),
    )
