"""GPUs that serve several claims at once, as slices show them (consumable capacity, KEP-5075). Pure.

In: a card, how its node shares GPUs, what is held of it by claims that have lost it. Out: capacities with request policies, or
the reason why the card is not shared. The API server checks them (kubernetes `validateRequestPolicyRange`): a default lies
between least and most, steps lead from the least to both, and one step fits.
"""

from dataclasses import dataclass
from typing import Any, Final

from apportion.agent.devices.values import MIB, Card, CardKind
from apportion.agent.slices.naming import camel
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
    total, most, cores = shareable_memory(card), sharing.most, PERCENT
    if has_room(card, sharing, held):
        left = _left(card, held)
        part = max(min(total // most, left) // _STEP * _STEP, _STEP)
        total, most, cores = left, most - held.claims, max(PERCENT - held.cores, 1)
    else:
        part = total // most // _STEP * _STEP
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
        "memory": _ranged(total, part, _STEP, "BinarySI"),
        "shares": _ranged(most, 1, 1, "DecimalSI"),
        **(
            {"cores": _ranged(cores, min(max(PERCENT // sharing.most, 1), cores), 1, "DecimalSI")}
            if sharing.strategy is SharingStrategy.MPS
            else {}
        ),
    }


def _left(card: Card, held: Held) -> int:
    return (shareable_memory(card) - held.memory) // _STEP * _STEP


def _ranged(value: int, default: int, step: int, form: Format) -> Json:
    most, given, least = (str(Quantity.whole(amount, form)) for amount in (value, default, step))
    bounds = {"min": least, "max": most} | ({"step": least} if value >= 2 * step else {})
    return {"value": most, "requestPolicy": {"default": given, "validRange": bounds}}
