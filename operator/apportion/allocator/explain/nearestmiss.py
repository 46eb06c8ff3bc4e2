"""nearest_miss(): the device that fails the fewest conditions, and these conditions.

In: the node that came nearest, and its diagnosis. Out: one device, with a sentence per failed condition.
"""

from apportion.allocator.bits import bits
from apportion.allocator.explain.diagnosis import Diagnosis, funnel, selectors_of, shortages
from apportion.allocator.explain.explanation import ConstraintReport, NearestMiss
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.node.template import why_unusable
from apportion.allocator.rules.pools import amount
from apportion.allocator.rules.query import Alternative, ErrorCause, NamedQuery
from apportion.allocator.rules.selectors import SelectorResults
from apportion.allocator.state import State
from apportion.dra.device import Attribute, Device
from apportion.dra.taint import untolerated

TRIED = 32
"""Devices compared at most."""
CUT = 160
"""Characters of a selector's text shown at most."""


def nearest_miss(state: State, named: NamedQuery, name: str, found: Diagnosis) -> NearestMiss | None:
    """Return the device that comes nearest to serving the failed request; None if no request failed."""
    if found.constraint is not None:
        return _agreement(name, found.constraint)
    if found.slot < 0 or found.request is None:
        return None
    view = state.view(name)
    alternative = named.query.slots[found.slot].alternatives[found.alternative]
    best: tuple[tuple[int, bool], int, tuple[str, ...]] | None = None
    for index in bits(_closest(state, view, alternative)):
        missing = _missing(state, view, alternative, index)
        # What several claims share is nearer than what one claim has.
        rank = len(missing), index not in view.differing
        if missing and (best is None or rank < best[0]):
            best = rank, index, missing
    if best is None:
        return None
    request = found.request
    enough: tuple[str, ...] = ()
    if request.on_one_node:
        wanted = (
            f"all {request.matching} devices that match"
            if request.wanted is None
            else f"the {request.wanted} devices wanted"
        )
        enough = (f"{request.on_one_node} of {wanted} would do here, this one not",)
    return NearestMiss(name, str(view.id_of(best[1])), request.claim, request.request, (*enough, *best[2]))


def _agreement(node: str, constraint: ConstraintReport) -> NearestMiss:
    """Return the miss of a constraint: how many free devices agree, or differ, on the node."""
    if constraint.distinct:
        missing = f"{constraint.different} different values of {constraint.attribute} where {constraint.wanted} are needed"
    elif constraint.values:
        value, count = constraint.values[0]
        missing = (
            f"{count} free devices have {constraint.attribute} {value} where {constraint.wanted} must agree"
        )
    else:
        missing = f"no free device has {constraint.attribute}"
    return NearestMiss(node, "", constraint.claim, "", (missing,))


def _closest(state: State, view: NodeView, alternative: Alternative) -> int:
    """Return some devices that passed the most stages, but not all."""
    stages = funnel(state, view, alternative)
    masks = [stages.free, stages.roomy, stages.unheld, stages.untainted, stages.matching]
    masks += reversed(view.prefixes(alternative, state.selectors))
    passed = 0
    for mask in (*masks, view.base):
        if mask & ~passed:
            chosen = mask & ~passed & ~stages.free
            if chosen:
                return sum(1 << index for index, _ in zip(bits(chosen), range(TRIED), strict=False))
        passed |= mask
    return 0


def _missing(state: State, view: NodeView, alternative: Alternative, index: int) -> tuple[str, ...]:
    device = view.devices[index]
    found = []
    for owner, number, text in selectors_of(alternative):
        found += _selector(state.selectors(text), device, text, f"{owner} selector #{number}")
    taint = untolerated(view.template.taints.get(index, ()), alternative.tolerations)
    if taint is not None:
        found.append(f"taint {taint.key}:{taint.effect} is not tolerated")
    if view.exclusive >> index & 1 and not alternative.admin:
        found.append(f"held by {', '.join(state.holders(view.id_of(index))[:3])}{_differing(view, index)}")
    taken = view.charge(index, alternative) if view.features.consumable_capacity else {}
    if taken is None:
        found.append(_unserved(device, alternative))
    elif isinstance(taken, ErrorCause):
        found.append(taken.reason)
    elif not view.roomy(index, taken):
        found.append("its capacity left does not suffice for the requested amounts")
    if not view.base >> index & 1:
        found.append(why_unusable(view.piece_of(index), device, view.node))
    if not alternative.admin:
        found += [f"counter {name} is short of {amount(missing)}" for name, missing in shortages(view, index)]
        if not view.compatible(index):
            found.append("devices in use on its counters are of other compatibility groups")
    return tuple(found)


def _differing(view: NodeView, index: int) -> str:
    """Return why shares of a device hold it as a whole; "" where they do not."""
    name = view.differing.get(index)
    if name is None:
        return ""
    if name in view.devices[index].capacity:
        return f" (a share consumes no capacity {name}, which the device publishes)"
    return f" (a share consumes capacity {name}, which the device does not publish)"


def _unserved(device: Device, alternative: Alternative) -> str:
    """Return which requested capacities a device does not have, or that it has too little of one."""
    unknown = [name for name in alternative.amounts if name not in device.capacity]
    if not unknown:
        return "its capacity cannot serve the requested amounts"
    known = f"only {', '.join(sorted(device.capacity))}" if device.capacity else "nor any other"
    return f"it has no capacity {', '.join(sorted(unknown))}, {known}"


def _selector(results: SelectorResults, device: Device, text: str, title: str) -> list[str]:
    """Return the sentence about a selector that the device fails; none where only a costly evaluation could tell."""
    found = results.known(device)
    if found is None or found is True:
        return []
    if found is False:
        shown = text if len(text) <= CUT else f"{text[:CUT]}..."
        return [f"{title} does not match: {shown}{_values(device, results.reads)}"]
    return [f"{title} {'does not compile' if results.broken else 'fails'}: {found}"]


def _values(device: Device, reads: frozenset[tuple[str, str]] | None) -> str:
    """Return the device's values of what the selector reads."""
    shown = []
    for kind, name in sorted(reads or ())[:3]:
        if kind == "attribute":
            shown.append(f"{name} is {_show(device.attribute(name))}")
        elif kind == "capacity":
            plain = name.removeprefix(f"{device.driver}/")
            capacity = device.capacity.get(name) or device.capacity.get(plain)
            shown.append(f"{name} is {capacity.value if capacity else 'absent'}")
    return f" ({'; '.join(shown)})" if shown else ""


def _show(value: Attribute | None) -> str:
    if value is None:
        return "absent"
    if isinstance(value, tuple):
        return "[" + ", ".join(_show(entry) for entry in value[:5]) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
