"""Explanations as text: one line for an Event, several for a terminal.

In: an Explanation. Out: plain English.
"""

from collections.abc import Iterable

from apportion.allocator.explain.explanation import Explanation, NearestMiss, NodeGroup, RequestReport

EVENT = 1000
"""Characters of an Event's note (events.k8s.io `note` takes 1024 bytes)."""
SELECTOR = 120
_NAMED = 3
"""Holders, and counters that are short, that one sentence names."""


def summary(explanation: Explanation) -> str:
    """Return one line of at most 1000 characters: the main reason first, then the nearest miss, which is the last where not everything has room."""
    if not explanation.groups:
        return "no node may be used"
    first, *rest = [f"{_nodes(group, explanation)}: {reason(group)}" for group in explanation.groups]
    found = explanation.nearest
    nearest = [f"nearest: {_place(found)}: {'; '.join(found.missing[:3])}"] if found is not None else []
    text = _line([first, *nearest, *rest])
    return text if len(text) <= EVENT else _cut(_line([first, *rest, *nearest]), EVENT)


def _line(parts: Iterable[str]) -> str:
    return ". ".join(part.replace("\n", " ") for part in parts)


def render(explanation: Explanation) -> str:
    """Return several lines for a terminal."""
    lines = [f"{', '.join(explanation.claims) or 'nothing'}: no node of {explanation.nodes} can serve"]
    if explanation.examined < explanation.nodes:
        lines.append(f"({explanation.examined} of them were looked at for this explanation)")
    for group in explanation.groups:
        names = ", ".join(group.nodes) + (", ..." if group.count > len(group.nodes) else "")
        lines.append(f"- {_nodes(group, explanation)} ({names}): {reason(group)}")
        if group.request is not None:
            lines.extend(f"    {line}" for line in _funnel(group.request))
    if explanation.nearest is not None:
        nearest = explanation.nearest
        lines.append(f"nearest miss: {_place(nearest)}, for {nearest.claim} {nearest.request}".rstrip())
        lines.extend(f"    {sentence}" for sentence in nearest.missing)
    return "\n".join(lines)


def reason(group: NodeGroup) -> str:
    """Return a group's reason in one sentence."""
    if group.constraint is not None:
        constraint = group.constraint
        name = "distinctAttribute" if constraint.distinct else "matchAttribute"
        values = ", ".join(f"{value}: {count}" for value, count in constraint.values) or "none"
        missing = f", {constraint.without} free devices lack it" if constraint.without else ""
        return (
            f"claim {constraint.claim}: {name} {constraint.attribute} needs {constraint.wanted} devices; free devices by value:"
            f" {values}{missing}"
        )
    if group.request is None or group.message:
        return group.message or "no devices"
    return _request(group, group.request)


def _request(group: NodeGroup, request: RequestReport) -> str:
    wanted = "all" if request.wanted is None else str(request.wanted)
    title = f"claim {request.claim}, request {request.request} (class {request.device_class}) wants {wanted}"
    funnel = f"{request.looked} devices looked at"
    for step in request.steps:
        funnel += f", {step.passed} passed {step.owner} selector #{step.number}"
    match group.kind:
        case "selector":
            blame = _blame(request)
        case "taint":
            taints = ", ".join(f"{taint} on {count}" for taint, count in request.taints)
            blame = f"{request.untainted} without an untolerated taint ({taints})"
        case "busy":
            blame = f"{request.unheld} not held{_held(request)}"
        case "capacity":
            blame = f"{request.roomy} with enough capacity left{_held(request)}"
        case "counters":
            shortages = _some(
                (
                    *(
                        f"{short.counter} short of at least {short.missing} on {short.devices}"
                        for short in request.shortages
                    ),
                    *(f"{count} never allocated there: {why}" for why, count in request.unusable),
                )
            )
            # Where the counters suffice, the devices in use on them are of other compatibility groups.
            short_of = f" ({shortages or 'what is in use is of other compatibility groups'})"
            blame = f"{request.free} with enough left in their counters{short_of}{_held(request)}"
        case _:
            blame = ""
    many = f"; at most {request.on_one_node} on one node" if (request.wanted or 1) > 1 else ""
    return f"{title}: {funnel}{'; ' if blame else ''}{blame}{many}"


def _blame(request: RequestReport) -> str:
    """Return the clause that names the selector which stops the devices."""
    before = request.looked
    for step in request.steps:
        if not step.passed or step.passed < (request.wanted or 1) <= before:
            return f"{step.owner} selector #{step.number} stops them: {_cut(step.text, SELECTOR)}"
        before = step.passed
    return "too few match"


def _held(request: RequestReport) -> str:
    return f", held by {_some(request.holders)}" if request.holders else ""


def _some(texts: Iterable[str]) -> str:
    """Return the first of these, and how many more there are: an Event has room for the reasons of several groups of nodes."""
    found = [*texts]
    more = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _funnel(request: RequestReport) -> list[str]:
    lines = [f"{request.looked} devices looked at"]
    lines += [
        f"{step.passed} passed {step.owner} selector #{step.number}: {step.text}" for step in request.steps
    ]
    lines += [
        f"{request.untainted} without an untolerated taint",
        f"{request.unheld} not held",
        f"{request.roomy} with enough consumable capacity",
        f"{request.free} with enough in the shared counters",
    ]
    return lines


def _place(nearest: NearestMiss) -> str:
    return f"{nearest.device} on {nearest.node}" if nearest.device else f"node {nearest.node}"


def _nodes(group: NodeGroup, explanation: Explanation) -> str:
    if explanation.nodes == 1:
        return f"node {group.nodes[0]}" if group.nodes and group.nodes[0] else "the node"
    return f"{group.count} of {explanation.nodes} nodes"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
