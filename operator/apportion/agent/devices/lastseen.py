"""The partitions last seen on each card, for cards that do not answer.

In: a function that lists one card's partitions. Out: its partitions, fresh or as last seen, and which cards could not be looked at.
"""

import threading
from collections.abc import Callable, Iterable, Mapping

import structlog

from apportion.agent.devices.values import Health, LivePartition
from apportion.errors import HardwareError, Lost

_log = structlog.get_logger()

Look = Callable[[str], tuple[LivePartition, ...]]


class LastSeen:
    """Of one backend; safe to use from several threads."""

    def __init__(self, vendor: str) -> None:
        """`vendor` begins the names of log events."""
        self._vendor = vendor
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[LivePartition, ...]] = {}
        self._failed: dict[str, HardwareError] = {}

    def one(self, card: str, look: Look) -> tuple[LivePartition, ...]:
        """List a card's partitions now; raises the HardwareError that prevents it."""
        try:
            found = look(card)
        except HardwareError as error:
            self._note(card, error)
            raise
        with self._lock:
            self._seen[card] = found
            was = self._failed.pop(card, None)
        if was is not None:
            _log.info(f"{self._vendor}.readable_again", card=card)
        return found

    def all(self, cards: Iterable[str], look: Look) -> tuple[LivePartition, ...]:
        """List the partitions of all cards; for one that fails, those last seen."""
        found: list[LivePartition] = []
        for card in cards:
            try:
                found += self.one(card, look)
            except HardwareError:
                with self._lock:
                    found += self._seen.get(card, ())
        return tuple(found)

    def removed(self, live: LivePartition) -> None:
        """Take note that a partition is gone: a card that does not answer from now on must not show it."""
        with self._lock:
            self._seen[live.card] = without(self._seen.get(live.card, ()), live)

    def health(self, cards: Iterable[str], said: Mapping[str, Health]) -> dict[str, Health]:
        """Add to known health the cards whose last listing failed: lost, or at least sick."""
        with self._lock:
            failed = {card: self._failed[card] for card in cards if card in self._failed}
        lost = {card: Health.LOST for card, error in failed.items() if isinstance(error, Lost)}
        return dict.fromkeys(failed, Health.SICK) | dict(said) | lost

    def _note(self, card: str, error: HardwareError) -> None:
        with self._lock:
            known = self._failed.get(card)
            self._failed[card] = error
        if known is None:
            _log.warning(f"{self._vendor}.unreadable", card=card, error=str(error))


def without(seen: tuple[LivePartition, ...], gone: LivePartition) -> tuple[LivePartition, ...]:
    """Return what was seen but a partition that was removed since."""
    return tuple(each for each in seen if (each.place, each.uuid) != (gone.place, gone.uuid))
