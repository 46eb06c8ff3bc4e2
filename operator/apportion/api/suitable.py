"""Suitable: for which devices a kind of parameters is.

In: kinds of parameters, published types of devices. Out: whether they go together. The operator judges by it before devices are given
away, the agents when they prepare.
"""

from collections.abc import Mapping
from typing import Final

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


def suits_parts(kind: str, *, whole: bool) -> bool:
    """Say whether parameters of a kind are for whole cards, or for parts of cards, of the right kind."""
    return kind not in TYPES or (TYPES[kind] not in PARTS) is whole
