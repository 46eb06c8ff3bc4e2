"""What each alternative of a demand may take on one node, before anything is chosen.

In: a shape and a node's view. Out: an option per alternative: a mask of devices, and the devices that are errors.
Raises Fault where upstream refuses the node before it searches (mode All).
"""

from dataclasses import dataclass

from apportion.allocator.counters import bits
from apportion.allocator.fault import Fault, Flaw
from apportion.allocator.shape import MOST_RESULTS, Shape, Want
from apportion.allocator.view import Answering, NodeView


@dataclass(slots=True)
class Option:
    """One alternative on one node."""

    want: Want
    number: int
    """Position among the slot's alternatives."""
    mask: int
    """Devices that pass selectors, taints and capacity, and are not held as a whole."""
    count: int
    errors: dict[int, Flaw]
    """Devices on which a selector fails or the requested capacity is absurd."""
    everything: tuple[int, ...] | None = None
    """Mode All: the devices that it needs, held or not."""


def options(view: NodeView, shape: Shape, answers: Answering, excluded: int = 0) -> list[list[Option]]:
    """Return the options of every slot."""
    found = [
        [
            (_everything if want.everything else _exact)(view, want, (position, number), answers, excluded)
            for number, want in enumerate(slot.wants)
        ]
        for position, slot in enumerate(shape.slots)
    ]
    least: dict[int, int] = {}
    for position, slot in enumerate(shape.slots):
        least[slot.claim] = least.get(slot.claim, 0) + min(option.count for option in found[position])
        if least[slot.claim] > MOST_RESULTS:
            reason = (
                f"number of requested devices {least[slot.claim]} exceeds the claim limit of {MOST_RESULTS}"
            )
            raise Fault(position, 0, Flaw("claim", reason))
    return found


def _exact(view: NodeView, want: Want, where: tuple[int, int], answers: Answering, excluded: int) -> Option:
    mask, errors = view.selected(want, answers)
    mask &= ~excluded
    if not want.admin:
        mask &= ~view.exclusive
    if view.features.consumable_capacity:
        mask, errors = _capacity(view, want, mask, errors)
    return Option(want, where[1], mask & view.tolerating(want.tolerations), want.count, errors)


def _everything(
    view: NodeView, want: Want, where: tuple[int, int], answers: Answering, excluded: int
) -> Option:
    if view.incomplete is not None:
        reason = f"asks for all devices, but resource pool {view.incomplete} is currently being updated"
        raise Fault(*where, Flaw("request", reason))
    if view.invalid is not None:
        reason = f"asks for all devices, but resource pool {view.invalid.id} is currently invalid"
        raise Fault(*where, Flaw("request", reason))
    mask, errors = view.selected(want, answers)
    if errors:
        raise Fault(*where, errors[min(errors)])
    usable = mask
    if view.features.consumable_capacity:
        # A device that could never serve the request is none of "all"; one that is full now stands in the way.
        mask, errors = _capacity(view, want, mask, errors, beside=False)
        if errors:
            raise Fault(*where, errors[min(errors)])
        usable, _ = _capacity(view, want, mask, errors)
    devices = tuple(bits(mask))
    usable &= view.tolerating(want.tolerations) & ~excluded
    if not want.admin:
        usable &= ~view.exclusive
    return Option(want, where[1], usable, len(devices), {}, devices)


def _capacity(
    view: NodeView, want: Want, mask: int, errors: dict[int, Flaw], *, beside: bool = True
) -> tuple[int, dict[int, Flaw]]:
    """Drop the devices whose capacity cannot serve the request, beside what their shares use or at all."""
    if not want.capacity and not (mask & view.limited):
        return mask, errors
    errors = dict(errors)
    for index in bits(mask if want.capacity else mask & view.limited):
        taken = view.charge(index, want)
        if isinstance(taken, Flaw):
            errors[index] = taken
        if taken is None or isinstance(taken, Flaw) or not view.roomy(index, taken, beside=beside):
            mask &= ~(1 << index)
    return mask, errors
