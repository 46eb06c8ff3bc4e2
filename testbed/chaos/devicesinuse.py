"""The devices of a node that its scenarios have in use or keep warm, and where more fits.

In: devices in use. Out: placements that are free. It knows what cards offer from the models of the fake driver, not from the product.
"""

from random import Random
from typing import Final

from testbed.chaos.fakehardware import MODELS, Placement, fits, overlap, placements
from testbed.chaos.trackeddevice import TrackedDevice

WHOLE_CARD: Final = "gpu-0"
"""The card that is used as a whole, too."""
FOREIGN_CARD: Final = "gpu-1"
"""The card with the foreign partition; it is never used as a whole."""
_MOST_SHARES: Final = 4


class DevicesInUse:
    """That of one node."""

    def __init__(self) -> None:
        self.devices: list[TrackedDevice] = []
        self._offered = {f"gpu-{n}": placements(f"gpu-{n}", model) for n, model in enumerate(MODELS)}
        self.foreign_placement = next(
            p for p in self._offered[FOREIGN_CARD] if p.profile == "1g.5gb" and p.start == 6
        )

    def add(self, device: TrackedDevice) -> TrackedDevice:
        """Note a device that a scenario of this round begins to use."""
        self.devices.append(device)
        return device.reserve()

    def idle(self) -> list[TrackedDevice]:
        """Return the devices that no scenario of this round uses."""
        return [device for device in self.devices if not device.reserved]

    def on_card(self, card: str) -> list[TrackedDevice]:
        """Return the devices of a card."""
        return [device for device in self.devices if device.card == card]

    @property
    def for_one_more_share(self) -> bool:
        """Whether one more claim can share the card that is used as a whole."""
        others = self.on_card(WHOLE_CARD)
        return len(others) < _MOST_SHARES and all(device.gibibytes for device in others)

    def free_placement(
        self, random: Random, *, without: TrackedDevice | None = None, card: str = ""
    ) -> Placement | None:
        """Return a placement (of one card, if one is named) that fits beside all devices except `without`, which it overlaps."""
        others = [device for device in self.devices if device is not without]
        beside = [device.placement for device in others if device.placement is not None] + [
            self.foreign_placement
        ]
        whole = {device.card for device in others if device.placement is None}
        found = [
            placement
            for name, offered in self._offered.items()
            if name not in whole and card in ("", name)
            for placement in offered
            if fits(placement, beside, offered)
        ]
        if without is not None and without.placement is not None:
            old = without.placement
            found = [placement for placement in found if overlap(placement, old) and placement != old]
        return random.choice(found) if found else None
