"""Suitable: for which devices a kind of parameters is.

In: kinds of parameters, published types of devices. Out: whether they go together. The operator judges by it before devices are given
away, the agents when they prepare.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from apportion.api.deviceconfig import Entry, in_force, kind_of

PARTS: Final[Mapping[str, str]] = {"mig": "gpu", "vnpu": "npu"}
"""Published types of parts of cards, with the kind of the card."""
TYPES: Final[Mapping[str, str]] = {
    "GpuConfig": "gpu",
    "MigDeviceConfig": "mig",
    "NpuConfig": "npu",
    "NetworkConfig": "nic",
}
"""The published type (attribute `type`) of the devices that a kind of parameters is for."""


def card_of(type_: str) -> str:
    """Return the kind of the card that a device of a published type is, or is a part of."""
    return PARTS.get(type_, type_)


def suits(kind: str, type_: str) -> bool:
    """Say whether parameters of a kind are for devices of a published type; an unknown kind is refused elsewhere."""
    return TYPES.get(kind, type_) == type_


def suits_parts(kind: str, *, whole: bool) -> bool:
    """Say whether parameters of a kind are for whole cards, or for parts of cards, of the right kind."""
    return kind not in TYPES or (TYPES[kind] not in PARTS) is whole


def holding(entries: Sequence[Entry], type_: str) -> int | None:
    """Return the position of the entry, of those for one driver and about one request, that holds for a device of a published type.

    None: all that may hold are without requests, and for devices of other types. One that names the request holds whatever the type: the
    device can then not be prepared.
    """
    for position in reversed(in_force(entries, partial(suits, type_=type_))):
        if entries[position].requests or suits(kind_of(entries[position]), type_):
            return position
    return None
