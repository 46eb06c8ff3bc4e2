"""Reservation: devices that are kept for one head, and which of two plans for it is the better one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.allocator.reservation import ReservationPlan
from apportion.api.hold import HoldPurpose, hold_key, hold_name
from apportion.scheduling.backfill.heads import Head, key_of
from apportion.scheduling.room.keptroom import Kept

STARTED = 5.0
"""Seconds within which a pod starts once it has its devices: by so much it has to end before a reservation begins."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A plan that was compared with all nodes: as long as nothing else changes, only nodes that did may have an earlier start."""

    plan: ReservationPlan
    seen: int
    """How far the changes of nodes were read."""
    circumstances: object
    """What decides beside the nodes' devices and room."""


@dataclass(slots=True)
class Reservation:
    """Devices that are kept for one head."""

    head: Head
    plan: ReservationPlan
    since: float
    """When devices were first reserved for it, in seconds since 1970."""
    planned: float
    """When it was last looked for an earlier start elsewhere, by the clock."""
    room: Mapping[str, Kept] = field(default_factory=dict)
    """What is kept free on its nodes beside devices, by node."""
    compared: Compared | None = None
    """What was known then; None: nothing that counts later."""
    basis: object = None
    """What decided, beside who holds them, which devices its plan chose; None: that is not known."""
    changed: float = -math.inf
    """When something last changed on its nodes, by the clock, since it was made."""
    unsettled: float | None = None
    """Since when its nodes show too little for it, which `planning.is_unsettled` expects to change, by the clock."""
    asked: Head | None = None
    """The head without what its quota ruled out when this was planned on its nodes last."""
    name: str = field(init=False)
    """The name of the DeviceHold that shows it."""
    key: str = field(init=False)
    """The key of the allocator's state that holds the devices."""

    def __post_init__(self) -> None:
        """Make name and key, which stay as long as the head waits."""
        self.name = hold_name(HoldPurpose.RESERVATION, key_of(self.head))
        self.key = hold_key(self.name)

    def compared_at(self, circumstances: object) -> int | None:
        """Return how far the changes of nodes were read when the plan was compared with all of them, if only nodes that changed since may have an earlier start; None: any may.

        Any may where the plan has become worse, or the `circumstances` others: time alone brings no start forward.
        """
        known = self.compared
        if known is None or circumstances is None or known.circumstances != circumstances:
            return None
        return None if is_earlier(known.plan, self.plan) else known.seen


def is_earlier(found: ReservationPlan, known: ReservationPlan) -> bool:
    """Say whether one begins before the other; the unknown comes last, and then the fewer devices have to become free."""
    if found.start is None or known.start is None:
        return found.start is not None or (known.start is None and _awaits(found) < _awaits(known))
    return found.start < known.start


def is_same(found: ReservationPlan, known: ReservationPlan) -> bool:
    """Say whether nothing changed that counts: a pod that has not started yet ends a little later with each plan."""
    if found.start is None or known.start is None:
        return found.results == known.results and found.start == known.start
    return found.results == known.results and abs(found.start - known.start) < STARTED


def _awaits(found: ReservationPlan) -> int:
    return len({key for place in found.places for key in place.awaited})
