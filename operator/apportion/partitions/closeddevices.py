"""ClosedDevices: the devices that a taint keeps claims off, by their slice or by a DeviceTaintRule.

In: the snapshot. Out: whether a published device is one of them, and the cards where that may have changed by a rule. Some claims may tolerate the taint, but what
is kept warm is for all.
"""

from apportion.allocator.facts.taintrules import TaintRules
from apportion.api.contract import GUARD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device, DeviceId
from apportion.dra.slice import PoolId
from apportion.dra.taint import Taint
from apportion.dra.taintrule import DeviceTaintRule


class ClosedDevices:
    """Follows the rules; the slices say the rest."""

    def __init__(self) -> None:
        self._closing: frozenset[DeviceTaintRule] = frozenset()
        """The rules that keep claims off."""
        self._rules = TaintRules()
        """The same, by the pools that they name."""

    def __contains__(self, device: Device) -> bool:
        """Say whether a taint keeps claims off a device."""
        return any(map(_closes, device.taints)) or any(self._rules.covering(device.id))

    def follow(self, snapshot: Snapshot) -> set[DeviceId]:
        """Take in the rules; returns the cards in whose pools some came or went."""
        closing = frozenset(rule for rule in snapshot.taint_rules.values() if _closes(rule.taint))
        changed, self._closing = closing ^ self._closing, closing
        if not changed:
            return set()
        self._rules = TaintRules()
        for rule in closing:
            self._rules.put(rule)
        cards = {*snapshot.devices.cards, *snapshot.devices.partitioned}
        return {
            card for card in cards if any(rule.reaches(PoolId(card.driver, card.pool)) for rule in changed)
        }


def _closes(taint: Taint) -> bool:
    return taint.blocks and taint.key != GUARD
