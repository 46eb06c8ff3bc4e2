"""Candidates: the devices of one node that each alternative of a query may take, before any is chosen.

In: a query and a node's view. Out: per alternative a device mask, and the devices that cause an error when tried.
Raises NodeError where upstream refuses the node before its search (mode All).
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from apportion.allocator.bits import bits
from apportion.allocator.finished import finished
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import MOST_RESULTS, Alternative, ErrorCause, NodeError, Query
from apportion.allocator.rules.selectors import SelectorLookup

MANY = 2_000
"""Devices whose capacity is compared without a pause: about 0.01 s."""


@dataclass(slots=True)
class Candidates:
    """The candidates of one alternative on one node."""

    alternative: Alternative
    number: int
    """Position among the slot's alternatives."""
    mask: int
    """Devices that pass selectors, taints and capacity, and are not held as a whole."""
    count: int
    errors: Mapping[int, ErrorCause]
    """Devices on which a selector fails, or the requested capacity cannot be computed."""
    failing: int = 0
    """The same devices as a mask."""
    everything: tuple[int, ...] | None = None
    """Mode All: all matching devices, held or not; None for mode ExactCount."""

    @property
    def may_end(self) -> bool:
        """Whether a search may end with an error where it tries these devices."""
        return bool(self.errors) or (self.everything is not None and bool(self.alternative.constraints))


def candidate_rows(
    view: NodeView, query: Query, selectors: SelectorLookup, excluded: int = 0
) -> list[list[Candidates]]:
    """Return the candidates of every slot, one per alternative."""
    return finished(candidate_slots(view, query, selectors, excluded))


def candidate_slots(
    view: NodeView, query: Query, selectors: SelectorLookup, excluded: int = 0
) -> Generator[None, None, list[list[Candidates]]]:
    """Do what `candidate_rows` does; yields between slots after each `MANY` devices whose capacity was compared."""
    found: list[list[Candidates]] = []
    known: dict[Alternative, Candidates] = {}
    compared = 0
    for position, slot in enumerate(query.slots):
        row = []
        for number, alternative in enumerate(slot.alternatives):
            candidates = known.get(alternative)
            if candidates is None:
                find = _everything if alternative.everything else _exact
                candidates = known[alternative] = find(
                    view, alternative, (position, number), selectors, excluded
                )
                compared += len(view.devices) if alternative.capacity else 0
            row.append(candidates if candidates.number == number else replace(candidates, number=number))
        found.append(row)
        if compared > MANY:
            compared = 0
            yield
    least: dict[int, int] = {}
    for position, slot in enumerate(query.slots):
        least[slot.claim] = least.get(slot.claim, 0) + min(candidates.count for candidates in found[position])
        if least[slot.claim] > MOST_RESULTS:
            reason = (
                f"number of requested devices {least[slot.claim]} exceeds the claim limit of {MOST_RESULTS}"
            )
            raise NodeError(position, 0, ErrorCause("claim", reason))
    return found


def _exact(
    view: NodeView, alternative: Alternative, where: tuple[int, int], selectors: SelectorLookup, excluded: int
) -> Candidates:
    mask, errors = view.selected(alternative, selectors)
    mask &= ~excluded
    if not alternative.admin:
        mask &= ~view.exclusive
    if view.features.consumable_capacity:
        mask, errors = _capacity(view, alternative, mask, errors)
    failing = sum([1 << index for index in errors]) if errors else 0
    mask &= view.tolerating(alternative.tolerations)
    return Candidates(alternative, where[1], mask, alternative.count, errors, failing)


def _everything(
    view: NodeView, alternative: Alternative, where: tuple[int, int], selectors: SelectorLookup, excluded: int
) -> Candidates:
    if view.incomplete is not None:
        reason = f"asks for all devices, but resource pool {view.incomplete} is currently being updated"
        raise NodeError(*where, ErrorCause("request", reason))
    if view.invalid is not None:
        reason = f"asks for all devices, but resource pool {view.invalid.id} is currently invalid"
        raise NodeError(*where, ErrorCause("request", reason))
    mask, errors = view.selected(alternative, selectors)
    if errors:
        raise NodeError(*where, errors[min(errors)])
    usable = mask
    if view.features.consumable_capacity:
        # A device that could never serve the request is not one of all; one that is full now prevents the allocation.
        mask, errors = _capacity(view, alternative, mask, errors, with_held=False)
        if errors:
            raise NodeError(*where, errors[min(errors)])
        usable, _ = _capacity(view, alternative, mask, errors)
    devices = tuple(bits(mask))
    usable &= view.tolerating(alternative.tolerations) & ~excluded
    if not alternative.admin:
        usable &= ~view.exclusive
    return Candidates(alternative, where[1], usable, len(devices), {}, everything=devices)


def _capacity(
    view: NodeView,
    alternative: Alternative,
    mask: int,
    errors: Mapping[int, ErrorCause],
    *,
    with_held: bool = True,
) -> tuple[int, Mapping[int, ErrorCause]]:
    """Drop the devices whose capacity cannot serve the request: with `with_held` in addition to the shares held, else ever."""
    if not alternative.capacity and not (mask & view.limited):
        return mask, errors
    found = dict(errors)
    for index in bits(mask if alternative.capacity else mask & view.limited):
        taken = view.charge(index, alternative)
        if isinstance(taken, ErrorCause):
            found[index] = taken
        if (
            taken is None
            or isinstance(taken, ErrorCause)
            or not view.roomy(index, taken, with_held=with_held)
        ):
            mask &= ~(1 << index)
    return mask, found
