"""DeviceHold: devices that the operator keeps from other claims, and why; written by the operator alone, for people to read."""

from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from apportion.api.model import DeviceName, DriverName, Model, ObjectMeta, PoolName, listed, require_amount

MOST_LISTED = 1024
"""Devices, and objects for which they are held, that one object names."""
_DIGITS = 10
_QUANTITY = r"^[0-9]+(\.[0-9]{1,9})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,4})?$"
_Amount = Annotated[
    str, AfterValidator(require_amount), Field(max_length=32, json_schema_extra={"pattern": _QUANTITY})
]
"""A quantity, also as `Quantity` prints one that somebody wrote with an exponent."""


class HoldPurpose(StrEnum):
    """Why devices are held."""

    MOVE = "Move"
    RESERVATION = "Reservation"
    PREEMPTION = "Preemption"


class HeldDevice(Model):
    """One device, as an allocation names it."""

    driver: DriverName
    """The driver."""
    pool: PoolName
    """The pool."""
    device: DeviceName
    """Its name in the pool."""
    share_id: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, validation_alias="shareID", serialization_alias="shareID"
    )
    """Of a share of a device: its ID. Absent: the whole device is held."""
    consumed_capacity: dict[str, _Amount] = Field(default_factory=dict, max_length=32)
    """Of a share: how much of the device's capacities is held."""


class HeldFor(Model):
    """One object for which devices are held."""

    kind: Literal["ResourceClaim", "DefragPolicy"]
    """Its kind."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Its namespace; empty for a DefragPolicy."""
    name: Annotated[str, Field(max_length=253)]
    """Its name."""
    uid: Annotated[str, Field(max_length=64)]
    """Its UID."""


class DeviceHoldSpec(Model):
    """Which devices are held, and why."""

    purpose: HoldPurpose
    """Move: places of pods that a DefragPolicy moves, and what it makes free, until its moves have ended. Reservation: a claim that waits will
    have them first; until `starts` others have them that end before, or have a higher priority. Preemption: pods are evicted for a
    claim, which gets what they give back."""
    held_for: Annotated[tuple[HeldFor, ...], listed("atomic", most=MOST_LISTED)]
    """The claims that get the devices, or the DefragPolicy."""
    controllers: Annotated[
        tuple[Annotated[str, Field(max_length=64)], ...], listed("atomic", most=MOST_LISTED)
    ] = ()
    """Of a move: UIDs of the controllers whose pods move, and come instead."""
    priority: int | None = None
    """The priority of those that wait, as their queue counts it; absent for a move."""
    starts: datetime | None = None
    """Of a reservation: when all of the devices will be free by declared runtimes; absent: nobody knows."""
    count: Annotated[int, Field(ge=0)]
    """How many devices are held."""
    devices: Annotated[tuple[HeldDevice, ...], listed("atomic", most=MOST_LISTED)]
    """The devices, at most 1,024 of them."""


class DeviceHold(Model):
    """Devices that apportion keeps from other claims, and why. The operator writes it while it holds them; changing it changes nothing."""

    api_version: Literal["apportion.dev/v1alpha1"] = "apportion.dev/v1alpha1"
    kind: Literal["DeviceHold"] = "DeviceHold"
    metadata: ObjectMeta
    spec: DeviceHoldSpec
    """Which devices are held, and why."""


def hold_name(purpose: HoldPurpose, whose: str = "") -> str:
    """Return the name of the object about devices that are held for somebody (any text that stays the same); empty: there is one at a time."""
    digits = f"-{sha256(whose.encode()).hexdigest()[:_DIGITS]}" if whose else ""
    return f"{purpose.lower()}{digits}"


def hold_key(name: str) -> str:
    """Return the key under which the allocator holds the devices: refusals name it as the holder, so it says what to look at."""
    return f"DeviceHold {name}"
