"""The health that kubelet shows in pods: every device of one driver, again and again (DRAResourceHealth, KEP-4680).

In: the health of the last poll. Out: a stream of complete lists: at once, at every change, and more often than kubelet's timeout.
A list carries the time of the poll, so that kubelet calls health Unknown when polls fail.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from apportion.agent.devices.values import Health
from apportion.agent.wakeup import Wakeup, woken

TIMEOUT = 30
"""Seconds after which kubelet calls a device's health unknown (its default)."""
_PERIOD = 10.0
"""Seconds between two lists without a change."""
_SAID: Mapping[Health, str] = {
    Health.SICK: "{card} reports errors: new work stays away, running work may go on",
    Health.LOST: "{card} does not answer: work on it is lost",
    Health.RELEASED: "{card} is not asked, because its driver is let go of: a label nvidia.com/gpu.deploy.* of the Node is"
    " paused-for-driver-upgrade",
}
_NAMES: Mapping[Health, str] = {Health.HEALTHY: "HEALTHY", Health.RELEASED: "UNKNOWN"}
"""Names of the protocol; any other health is UNHEALTHY."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """One device, with the card that it is or lies on."""

    device: str
    card: str
    health: Health
    reason: str = ""
    """Why, where the card itself is well."""


def health_message(card: str, health: Health) -> str:
    """Return the message about a card's health, "" when it is healthy."""
    return _SAID[health].format(card=card) if health in _SAID else ""


class HealthFeed:
    """One driver's stream, for any number of listeners."""

    def __init__(
        self,
        pool: str,
        devices: Callable[[], tuple[DeviceHealth, ...]],
        *,
        last_read: Callable[[], float],
        changed: Wakeup,
        period: float = _PERIOD,
    ) -> None:
        """`devices` gives the whole list, `last_read` when it was polled (seconds since the epoch); `changed` wakes the streams."""
        self._pool = pool
        self._devices = devices
        self._last_read = last_read
        self._changed = changed
        self._period = period
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End every stream: a server that stops waits for its calls."""
        self._closed.set()
        self._changed.wake()

    async def lists(self, messages: ModuleType) -> AsyncIterator[Any]:
        """Yield lists in the messages of one version of the protocol, until closed."""
        while not self._closed.is_set():
            changed = self._changed.next
            yield messages.NodeWatchResourcesResponse(
                devices=[self._row(messages, row) for row in self._devices()]
            )
            await woken(changed, self._period)

    def _row(self, messages: ModuleType, row: DeviceHealth) -> Any:
        return messages.DeviceHealth(
            device=messages.DeviceIdentifier(pool_name=self._pool, device_name=row.device),
            health=getattr(messages, _NAMES.get(row.health, "UNHEALTHY")),
            last_updated_time=int(self._last_read()),
            health_check_timeout_seconds=TIMEOUT,
            message=row.reason or health_message(row.card, row.health),
        )
