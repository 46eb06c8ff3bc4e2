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
        self._written: Mapping[tuple[str, str, tuple[str, str]], tuple[Health, str]] = {}
        """State and message by UID and driver of a claim, and its device."""

    def update(self, health: Mapping[str, Health], failing: Mapping[str, str]) -> None:
        """Write what changed.

        `health` is by card, and for partitions that are sick by themselves by the UID of their Partition. `failing` says of
        devices why what was set up for their programs does not work.
        """
        written: dict[tuple[str, str, tuple[str, str]], tuple[Health, str]] = {}
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
                well = card is Health.HEALTHY
                state = health.get(device.partition, card) if well else card
                message = health_message(device.device if well else device.card, state)
                if state is Health.HEALTHY and device.device in failing:
                    state, message = Health.SICK, failing[device.device]
                written[key] = state, message
                if before != (state, message):
                    # Nothing is said of a device that was always well.
                    correction = before is None and state is Health.HEALTHY
                    condition = _condition(device, state, message, correction=correction)
                    ref = ClaimRef(row.namespace, row.name, row.uid)
                    self._writer.add(ref, row.driver, device.pool, [condition])
        self._written = written


def _condition(device: ClaimDevice, state: Health, message: str, *, correction: bool) -> DeviceCondition:
    return DeviceCondition(
        device.device,
        HEALTHY,
        state is Health.HEALTHY,
        str(state),
        message,
        share=device.share.id if device.share is not None else "",
        correction=correction,
    )
