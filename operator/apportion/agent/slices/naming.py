"""The names of devices: from a card's profiles to DNS labels and back.

In: cards. Out: every device that a card can become, under the names of the design (`gpu-0-mig-1g10gb-19-3`: profile
without dots, GPU instance profile id, start; `npu-0-vir05-1c-8g-2`: template, copy number).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from apportion.agent.devices.names import profile_place
from apportion.agent.devices.values import Card, CardKind, Placement, Profile
from apportion.api.contract import STATIC_SUFFIX


@dataclass(frozen=True, slots=True)
class PartitionDevice:
    """One device that a card can be cut into."""

    name: str
    profile: Profile
    placement: Placement | None
    """None: the driver chooses the place, and this is one of several equal copies (vNPU)."""


def partition_devices(card: Card) -> Iterator[PartitionDevice]:
    """Yield every partition that the card can be cut into, in the order in which slices list them."""
    for profile in card.profiles:
        stem = f"{card.name}-{'mig-' if card.kind is CardKind.GPU else ''}{_label(profile.name)}"
        if profile.placements:
            for placement in profile.placements:
                yield PartitionDevice(f"{stem}-{profile.number}-{placement.start}", profile, placement)
        else:
            for copy in range(profile.most):
                yield PartitionDevice(f"{stem}-{copy}", profile, None)


def partition_device(card: Card, device: str) -> PartitionDevice | None:
    """Return what a device name means on this card, static or not; None when it is none of its partitions.

    A name that another driver's name of the profile is in means the device of that profile's number and start.
    """
    dynamic = device.removesuffix(STATIC_SUFFIX)
    same = next((part for part in partition_devices(card) if part.name == dynamic), None)
    place = profile_place(dynamic) if same is None else None
    if place is None:
        return same
    return next(
        (
            part
            for part in partition_devices(card)
            if part.placement is not None and (part.profile.number, part.placement.start) == place
        ),
        None,
    )


def card_of(device: str, cards: dict[str, Card]) -> Card | None:
    """Return the card that a device is, or lies on."""
    if device in cards:
        return cards[device]
    # Longest first, so that gpu-1 does not claim what belongs to gpu-1-x.
    for name in sorted(cards, key=len, reverse=True):
        if device.startswith(f"{name}-"):
            return cards[name]
    return None


@lru_cache(maxsize=256)
def camel(key: str) -> str:
    """Return a counter's name as slices write capacities."""
    return re.sub(r"-([a-z])", lambda found: found[1].upper(), key)


def _label(profile: str) -> str:
    # "1g.10gb+me" -> "1g10gb-me". The profile id that follows keeps "+me" and "-me" apart.
    return profile.replace(".", "").replace("+", "-").replace("_", "-").lower()
