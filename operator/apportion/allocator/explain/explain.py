"""Find out why nodes refused: the first thing that each lacked, and the device that came nearest.

In: a state, a shape, what the nodes answered. Out: an Explanation. Cost is bounded: at most EXAMINED nodes are looked
at, those that answered something else than "none" first.
"""

from collections.abc import Container, Mapping, MutableMapping, Sequence
from dataclasses import replace

from apportion.allocator.explain.diagnosis import STAGES, Diagnosis, diagnose
from apportion.allocator.explain.explanation import Explanation, NodeGroup, RequestReport, Step
from apportion.allocator.explain.nearestmiss import nearest_miss
from apportion.allocator.rules.nodeerror import NodeError
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.search.outcome import BROKEN, EXHAUSTED, Outcome
from apportion.allocator.state import State

EXAMINED = 128
"""Nodes looked at for one explanation; about 10 ms."""
MOST_GROUPS = 8
NAMES = 5


def explain(
    state: State,
    named: NamedQuery,
    names: Sequence[str],
    outcomes: Mapping[str, Outcome],
    known: MutableMapping[object, Diagnosis] | None = None,
    special: Container[str] = (),
) -> Explanation:
    """Return why none of the nodes can serve.

    `names`: in order. `known`: diagnoses of this question so far, by standing; nodes that stand alike lack the same,
    except the `special` ones. Grows by these.
    """
    claims = tuple(claim.key for claim in named.names.claims)
    telling = [name for name in names if _tells(outcomes[name])]
    looked = (telling + [name for name in names if not _tells(outcomes[name])] if telling else names)[
        :EXAMINED
    ]
    groups: dict[object, list[tuple[str, Diagnosis]]] = {}
    for name in looked:
        found = _recall(state, named, name, outcomes[name], None if name in special else known)
        groups.setdefault(
            (found.kind, found.slot, found.alternative, found.constraint_index, found.message), []
        ).append((name, found))
    # The nearest to success first: the furthest stage, then the most devices that came that far.
    ranked = sorted(groups.values(), key=lambda rows: max(row.progress for _, row in rows), reverse=True)
    nearest = None
    for rows in ranked[:MOST_GROUPS]:
        # What is shown of a group is one node's, and names claims and holders: that one is looked at now.
        place = max(range(len(rows)), key=lambda number: rows[number][1].progress)
        name = rows[place][0]
        best = _diagnose(state, named, name, outcomes[name])
        rows[place] = name, best
        if nearest is None and rows is ranked[0]:
            nearest = nearest_miss(state, named, name, best)
    return Explanation(
        claims,
        len(names),
        len(looked),
        tuple(_group(rows) for rows in ranked[:MOST_GROUPS]),
        nearest,
    )


def _tells(outcome: Outcome) -> bool:
    """Say whether an outcome says more than that there is no place."""
    return outcome is BROKEN or outcome is EXHAUSTED or isinstance(outcome, NodeError)


def _recall(
    state: State,
    named: NamedQuery,
    name: str,
    outcome: Outcome,
    known: MutableMapping[object, Diagnosis] | None,
) -> Diagnosis:
    if known is None or isinstance(outcome, NodeError) or state.view(name).unclassifiable:
        return _diagnose(state, named, name, outcome)
    key = named.query, state.node_states.of(name)
    found = known.get(key)
    if found is None:
        found = known[key] = _diagnose(state, named, name, outcome)
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
    if outcome is EXHAUSTED:
        return Diagnosis("budget", message="the search gave up within its steps", progress=(len(STAGES), 0))
    found = diagnose(state, named, view)
    if outcome is BROKEN and view.invalid is not None and found.kind in {"nothing", "selector"}:
        return replace(found, kind="pool", message=f"pool {view.invalid.id}: {view.invalid.invalid}")
    if view.incomplete is not None and found.kind == "nothing":
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
    """Add the counts of all nodes; taints, holders and shortages are those of the nearest node."""
    return replace(
        first,
        looked=sum(one.looked for one in reports),
        steps=tuple(
            Step(step.owner, step.number, step.text, sum(one.steps[number].passed for one in reports))
            for number, step in enumerate(first.steps)
        ),
        matching=sum(one.matching for one in reports),
        untainted=sum(one.untainted for one in reports),
        unheld=sum(one.unheld for one in reports),
        roomy=sum(one.roomy for one in reports),
        free=sum(one.free for one in reports),
        on_one_node=max(one.on_one_node for one in reports),
    )
