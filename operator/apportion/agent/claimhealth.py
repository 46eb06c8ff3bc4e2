"""The health of devices in the statuses of the claims that use them.

In: the health of cards and partitions at each poll, the journal's claims. Out: conditions for `status.devices`, when they change. What
a status says from before this process is put right: a card may have become well, or sick, while no agent ran.
"""

from collections.abc import Callable, Iterable, Mapping

from apportion.agent.devices.values import Health
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.claimstatus import HEALTHY, ClaimStatusWriter, DeviceCondition
from apportion.agent.kubelet.health import health_message
from apportion.agent.rows import ClaimDevice, ClaimRow


class ClaimHealth:
    """Remembers what it wrote."""

    def __init__(self, claims: Callable[[], Iterable[ClaimRow]], writer: ClaimStatusWriter) -> None:
        """`claims` gives the rows of the journal."""
        self._claims = claims
        self._writer = writer
        self._written: Mapping[tuple[str, str, tuple[str, str]], Health] = {}
        """By UID and driver of a claim, and its device."""

    def update(self, health: Mapping[str, Health]) -> None:
        """Write what changed.

        `health` is by card, and for partitions that are sick by themselves by the UID of their Partition.
        """
        written = {}
        for row in self._claims():
            for device in row.devices:
                key = row.uid, row.driver, device.id
                before = self._written.get(key)
                card = health.get(device.card)
                if card is None or card is Health.RELEASED:
                    # Not there, or nobody asks it: the status keeps what it says.
                    if before is not None:
                        written[key] = before
                    continue
                own = card is Health.HEALTHY
                written[key] = state = health.get(device.partition, Health.HEALTHY) if own else card
                if state is not before:
                    about = device.device if own else device.card
                    # Nothing is said of a device that was always well.
                    correction = before is None and state is Health.HEALTHY
                    condition = _condition(device, about, state, correction=correction)
                    ref = ClaimRef(row.namespace, row.name, row.uid)
                    self._writer.add(ref, row.driver, device.pool, [condition])
        self._written = written


def _condition(device: ClaimDevice, about: str, state: Health, *, correction: bool) -> DeviceCondition:
    return DeviceCondition(
        device.device,
        HEALTHY,
        state is Health.HEALTHY,
        str(state),
        health_message(about, state),
        share=device.share.id if device.share is not None else "",
        correction=correction,
    )
