"""A kind of generic device, as the administrator describes it: how it is found, and the parts that it is given away in.

In: decoded YAML. Out: frozen values, or BrokenInput naming the field. A field that is not known is an error.
"""

from collections import Counter
from typing import Annotated, Self

from pydantic import Field, StrictInt, StrictStr, ValidationInfo, field_validator, model_validator

from apportion.agent.devices.generic.described import Described, SourceText, Strict
from apportion.agent.devices.generic.fields import (
    PARTS,
    CardType,
    FactName,
    Ids,
    PartPattern,
    PciClass,
    Regex,
    SourceFile,
    SysPattern,
    TakenAmount,
    counter,
)
from apportion.api.model import DriverName

MOST_PARTS = 64
"""Parts of one type on a card: as many devices as a slice has room for, if they consume counters."""


class PciMatch(Strict):
    """A device on the PCI bus; all that is named must hold, and one of several ids."""

    vendor: Ids = ()
    """Vendor ids."""
    device: Ids = ()
    """Device ids."""
    device_class: PciClass = Field(default="", alias="class")
    """Class, or its first bytes: 12 is every processing accelerator."""
    driver: StrictStr = ""
    """The kernel driver that it is bound to."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.vendor or self.device or self.device_class or self.driver):
            raise ValueError("names neither vendor nor device nor class nor driver: every device would match")
        return self


class Match(Strict):
    """How devices are found."""

    pci: PciMatch | None = None
    """On the PCI bus, by ids; or"""
    path: SysPattern | None = None
    """each folder that this pattern (*, ?, [...]) finds below /sys."""
    where: dict[SourceFile, Regex] = Field(default_factory=dict)
    """Files whose whole text must be as the expression says."""

    @model_validator(mode="after")
    def _by_one(self) -> Self:
        if (self.pci is None) == (self.path is None):
            raise ValueError("devices are found either by pci or by path")
        return self


class PartKind(Described):
    """Equal parts of a card, each a device: either the card is given away, or its parts are (KEP-4815)."""

    type: CardType
    """Attribute `type` of the parts; their names are the card's with it and a number."""
    sysfs: PartPattern | None = None
    """Every folder that this pattern finds below the card's own is a part, and the part's files are below it; or"""
    count: Annotated[StrictInt, Field(ge=1, le=MOST_PARTS)] | None = None
    """so many parts, whose files are the card's."""
    takes: dict[FactName, TakenAmount] = Field(default_factory=dict)
    """How much a part takes of the card's capacities, by name; it is the part's own capacity."""

    @model_validator(mode="after")
    def _found_or_counted(self) -> Self:
        if (self.sysfs is None) == (self.count is None):
            raise ValueError("parts are either found by sysfs or counted")
        both = sorted(self.takes.keys() & self.capacity.keys())
        if both:
            raise ValueError(f"{both[0]} is what a part takes of its card, and so its capacity already")
        return self

    @property
    def facts(self) -> int:
        """How many attributes and capacities it names."""
        return super().facts + len(self.takes)


class DeviceKind(Described):
    """One kind of device, with a DRA driver of its own."""

    type: CardType
    """Attribute `type` of its devices, and what their names begin with."""
    driver: DriverName
    """DRA driver."""
    match: Match
    """Which devices of a node they are."""
    uuid: SourceText | None = None
    """What tells one of them from every other, wherever it is plugged in: a serial number."""
    parts: tuple[PartKind, ...] = ()
    """What a device may be given away in, instead of whole."""

    @field_validator("parts")
    @classmethod
    def _parts_of_this_card(cls, parts: tuple[PartKind, ...], info: ValidationInfo) -> tuple[PartKind, ...]:
        types = Counter([info.data.get("type"), *(part.type for part in parts)])
        twice = next((name for name, count in types.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} is the type of the card, or of several parts")
        counters = {counter(PARTS): PARTS}
        for part in parts:
            for name in part.takes:
                if name not in info.data.get("capacity", part.takes):
                    has = ", ".join(info.data["capacity"]) or "none"
                    raise ValueError(
                        f"{part.type} takes {name}, which is no capacity of the card; it has {has}"
                    )
                other = counters.setdefault(counter(name), name)
                if other == PARTS:
                    raise ValueError(
                        f"{part.type} takes {name}: {PARTS} is a counter that every card with parts has"
                    )
                if other != name:
                    raise ValueError(f"{other} and {name} are one counter {counter(name)}")
        return parts
