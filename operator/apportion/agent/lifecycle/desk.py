"""What every worker of the life cycle shares: hardware, journal, wishes, and the seams of time and crash.

In: the parts. Out: one object to pass on, with the locks of the cards.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from apportion.agent.bell import Bell
from apportion.agent.devices.hardware import Hardware
from apportion.agent.journal import ClaimRow, Journal
from apportion.agent.lifecycle.wish import Wishes
from apportion.cluster.client import Client


def utc_now() -> str:
    """Return the time as the API writes it (RFC 3339, seconds)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the life cycle waits for what others have to do first. Seconds."""

    room: float = 10.0
    """For room on a card that nobody is known to be giving up, before the partition is called Failed."""
    first_retry: float = 0.1
    last_retry: float = 2.0
    """Between tries while waiting; doubled from first to last."""
    failed: float = 15.0
    """Between tries of a Failed partition; a prepare call tries at once."""


@dataclass(slots=True)
class Desk:
    """The parts that workers share."""

    client: Client
    hardware: Hardware
    journal: Journal
    wishes: Wishes
    patience: Patience = field(default_factory=Patience)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], str] = utc_now
    at: Callable[[str], None] = lambda _: None
    """Called at every boundary between two steps; crash tests end the process in it."""
    moved: Bell = field(default_factory=Bell)
    """Rings when a partition has moved on: prepare calls wait for it."""
    published: Callable[[], None] = lambda: None
    """Called when slices may have to change."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def lock(self, card: str) -> asyncio.Lock:
        """Return the card's lock: nobody prepares what somebody else is removing."""
        return self._locks.setdefault(card, asyncio.Lock())

    def users(self, partition: str) -> tuple[ClaimRow, ...]:
        """Return the claims that have this Partition UID prepared, or are preparing it."""
        return tuple(
            row
            for row in self.journal.claims()
            if any(device.partition == partition for device in row.devices)
        )

    def whole_card_user(self, card: str) -> ClaimRow | None:
        """Return the claim that has the whole card."""
        for row in self.journal.claims():
            if any(device.device == card and not device.admin for device in row.devices):
                return row
        return None
