"""ClosedDevices: the devices that a taint keeps claims off, by their slice or by a DeviceTaintRule.

In: the snapshot. Out: whether a published device is one of them, and the cards where that may have changed by a rule. Some claims may tolerate the taint, but what
is kept warm is for all.
"""

from apportion.api.contract import GUARD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device, DeviceId
from apportion.dra.slice import PoolId
from apportion.dra.taintrule import DeviceTaintRule


class ClosedDevices:
    """Follows the rules; the slices say the rest."""

    def __init__(self) -> None:
        self._rules: frozenset[DeviceTaintRule] = frozenset()
        """Those that keep claims off."""
        self._naming: dict[str, list[DeviceTaintRule]] = {}
        """By the name of the pool that they name, "" for those that name none: a rule for one broken device names its pool."""

    def __contains__(self, device: Device) -> bool:
        """Say whether a taint keeps claims off a device."""
        named = (rule for pool in ("", device.id.pool) for rule in self._naming.get(pool, ()))
        return any(taint.blocks and taint.key != GUARD for taint in device.taints) or any(
            rule.covers(device.id) for rule in named
        )

    def follow(self, snapshot: Snapshot) -> set[DeviceId]:
        """Take in the rules; returns the cards in whose pools some came or went."""
        rules = frozenset(
            rule for rule in snapshot.taint_rules.values() if rule.taint.blocks and rule.taint.key != GUARD
        )
        changed, self._rules = rules ^ self._rules, rules
        if not changed:
            return set()
        self._naming.clear()
        for rule in rules:
            self._naming.setdefault(rule.pool, []).append(rule)
        cards = {*snapshot.devices.cards, *snapshot.devices.partitioned}
        return {
            card for card in cards if any(rule.reaches(PoolId(card.driver, card.pool)) for rule in changed)
        }
