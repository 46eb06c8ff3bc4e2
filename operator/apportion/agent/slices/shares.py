"""GPUs that serve several claims at once, as slices show them (consumable capacity, KEP-5075). Pure.

In: a card, how its node shares GPUs, what is held of it by claims that have lost it. Out: capacities with request policies, or
the reason why the card is not shared. The API server checks them (kubernetes `validateRequestPolicyRange`): a default lies
between least and most, steps lead from the least to both, and one step fits.
"""

from dataclasses import dataclass
from typing import Any, Final

from apportion.agent.devices.values import MIB, Card, CardKind
from apportion.agent.slices.naming import camel
from apportion.api.contract import HELD_PART
from apportion.api.policy import SharingStrategy
from apportion.dra.quantity import Format, Quantity

Json = dict[str, Any]
PERCENT: Final = 100
"""The cores of a card, as shares count them."""
_STEP: Final = MIB
"""Bytes; claims consume multiples of this (as NVIDIA's driver: dra-driver-nvidia-gpu, consumable_shares.go)."""


@dataclass(frozen=True, slots=True)
class PublishedSharing:
    """How a node shares its GPUs."""

    strategy: SharingStrategy
    most: int
    """Claims on one GPU."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is still prepared of a shared card for claims that have lost it."""

    claims: int = 0
    memory: int = 0
    """Bytes."""
    cores: int = 0
    """Percent."""


def shareable_memory(card: Card) -> int:
    """Return the bytes of memory that claims can share, whole steps."""
    return card.capacity.get("memory", 0) // _STEP * _STEP


def why_not_shared(card: Card, sharing: PublishedSharing) -> str:
    """Return why a node that shares its GPUs does not share this card, one word; "" when it does, and for cards of other kinds."""
    if card.kind != CardKind.GPU:
        return ""
    if card.parts_only:
        return "MIGModeNeedsReset"
    # A GPU that uses its host's memory has no figure of its own.
    return "" if shareable_memory(card) >= _STEP * sharing.most else "MemoryUnknown"


def has_room(card: Card, sharing: PublishedSharing, held: Held) -> bool:
    """Say whether a further claim could get anything of the card beside what is held."""
    cores = held.cores < PERCENT or sharing.strategy is not SharingStrategy.MPS
    return cores and sharing.most > held.claims and _left(card, held) >= _STEP


def shared_capacity(card: Card, sharing: PublishedSharing, held: Held) -> Json:
    """Return the capacities of a shared card.

    `memory` in bytes, `shares`, a count, and under MPS `cores` in percent; a claim that asks for none of one gets an equal part. What
    else the card has can be read by selectors and is consumed by nobody. What is held is left out, as long as there is room beside it.
    """
    offered, most = _offered(card, sharing, held), sharing.most
    part = max(min(shareable_memory(card) // most, offered["memory"]) // _STEP * _STEP, _STEP)
    found = {
        camel(name): {
            "value": str(Quantity.whole(value)),
            "requestPolicy": {"default": "0", "validValues": ["0"]},
        }
        for name, value in card.capacity.items()
        if name != "memory"
    }
    return {
        **found,
        "memory": _ranged(offered["memory"], part, _STEP, "BinarySI"),
        "shares": _ranged(offered["shares"], 1, 1, "DecimalSI"),
        **(
            {"cores": _ranged(cores, min(max(PERCENT // most, 1), cores), 1, "DecimalSI")}
            if (cores := offered.get("cores"))
            else {}
        ),
    }


def held_attributes(card: Card, sharing: PublishedSharing, held: Held) -> dict[str, int]:
    """Return how much of each capacity of a shared card is left out of what is published, as attributes: by it others tell what part of the card a share is."""
    offered = _offered(card, sharing, held)
    return {
        camel(f"{HELD_PART}-{name}"): whole - offered[name]
        for name, whole in _offered(card, sharing, Held()).items()
        if whole > offered[name]
    }


def _offered(card: Card, sharing: PublishedSharing, held: Held) -> dict[str, int]:
    """Return the capacities of a card that claims consume: what is left beside what is held, or all of it where there is no room beside that."""
    taken = held if has_room(card, sharing, held) else Held()
    found = {"memory": _left(card, taken), "shares": sharing.most - taken.claims}
    if sharing.strategy is SharingStrategy.MPS:
        found["cores"] = max(PERCENT - taken.cores, 1)
    return found


def _left(card: Card, held: Held) -> int:
    return (shareable_memory(card) - held.memory) // _STEP * _STEP


def _ranged(value: int, default: int, step: int, form: Format) -> Json:
    most, given, least = (str(Quantity.whole(amount, form)) for amount in (value, default, step))
    bounds = {"min": least, "max": most} | ({"step": least} if value >= 2 * step else {})
    return {"value": most, "requestPolicy": {"default": given, "validRange": bounds}}
