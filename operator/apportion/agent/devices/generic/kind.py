"""A kind of generic device, as the administrator describes it: how it is found, what is published, what a container gets.

In: decoded YAML. Out: frozen values, or BrokenInput naming the field. A field that is not known is an error. Limits of names,
texts and counts are those of a device in resource.k8s.io/v1.
"""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, StrictStr, model_validator

from apportion.agent.devices.generic.fields import (
    Amount,
    CardType,
    DevPattern,
    FactName,
    HostPath,
    Ids,
    PciClass,
    Plain,
    Regex,
    SourceFile,
    SysPattern,
    Template,
    VariableName,
    check_fixed,
    longhand,
)
from apportion.api.model import DriverName, Model

MOST_FACTS = 26
"""Attributes and capacities that a configuration may name: 32 (API), less the six that every device may have of its own."""


class _Part(Model):
    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class PciMatch(_Part):
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


class Match(_Part):
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


class SourceText(_Part):
    """Text of a file."""

    file: SourceFile
    """Where it stands."""
    pattern: Regex | None = None
    """Its first group, or without groups what it finds, is the text; absent: all of it."""


class Attribute(_Part):
    """An attribute: from a file, or fixed."""

    file: SourceFile | None = None
    """Where it stands; or"""
    value: Plain = None
    """what it always is."""
    pattern: Regex | None = None
    """As in SourceText."""
    type: Literal["string", "int", "bool", "version"] | None = None
    """Absent: text from a file, and a fixed value as it is written."""
    scale: Annotated[float, Field(gt=0)] = 1
    """By what a number of the file is multiplied; the rest is cut off."""

    @model_validator(mode="after")
    def _of_one_source(self) -> Self:
        _one_source(self.file, self.value, self.pattern, self.scale)
        if self.scale != 1 and self.type != "int":
            raise ValueError("scale is for attributes of type int")
        if self.value is not None:
            check_fixed(self.value, self.type)
        return self


class Capacity(_Part):
    """An amount that a device has: from a file, or fixed."""

    file: SourceFile | None = None
    """Where the number stands; or"""
    value: Amount = None
    """the amount, such as 16Gi."""
    pattern: Regex | None = None
    """As in SourceText."""
    scale: Annotated[float, Field(gt=0)] = 1
    """As in Attribute."""

    @model_validator(mode="after")
    def _of_one_source(self) -> Self:
        _one_source(self.file, self.value, self.pattern, self.scale)
        return self


class Node(_Part):
    """Device files for a container."""

    path: DevPattern | None = None
    """Every file that this pattern finds in the host's /dev; or"""
    sysfs: SourceFile | None = None
    """those of every folder that this pattern finds below the device's own and that has a file `dev`."""
    container: DevPattern | None = None
    """What the file is called in the container, where there is one; absent: as on the host."""
    optional: StrictBool = False
    """The container may start without."""

    @model_validator(mode="after")
    def _by_one(self) -> Self:
        if (self.path is None) == (self.sysfs is None):
            raise ValueError("device files are found either by path or by sysfs")
        return self


class MountPoint(_Part):
    """A file or folder of the host for a container."""

    host: HostPath
    """Where it is on the host."""
    container: HostPath | None = None
    """Where it is in the container; absent: at the same place."""
    read_only: StrictBool = True
    """Whether the container may only read it."""
    optional: StrictBool = False
    """The container may start without."""


class HealthFile(_Part):
    """How a device says that it is well."""

    file: SourceFile
    """Where it says so."""
    healthy: Regex
    """The whole text of a device that is well; every other text, and a file that cannot be read, is a sick device's."""


class DeviceKind(_Part):
    """One kind of device, with a DRA driver of its own."""

    type: CardType
    """Attribute `type` of its devices, and what their names begin with."""
    driver: DriverName
    """DRA driver."""
    match: Match
    """Which devices of a node they are."""
    uuid: SourceText | None = None
    """What tells one of them from every other, wherever it is plugged in: a serial number."""
    attributes: dict[FactName, Attribute] = Field(default_factory=dict)
    """By name."""
    capacity: dict[FactName, Capacity] = Field(default_factory=dict)
    """By name."""
    nodes: tuple[Annotated[Node, longhand("path")], ...] = ()
    """Device files; text alone is a path."""
    mounts: tuple[Annotated[MountPoint, longhand("host")], ...] = ()
    """Files and folders; text alone is the host's, at the same place in the container."""
    env: dict[VariableName, Template] = Field(default_factory=dict)
    """Environment; of several devices in one container the last one's value counts."""
    health: HealthFile | None = None
    """Absent: a device that is there is well."""

    @model_validator(mode="after")
    def _not_too_much(self) -> Self:
        facts = len(self.attributes) + len(self.capacity)
        if facts > MOST_FACTS:
            raise ValueError(
                f"{facts} attributes and capacities are too many: a device has room for {MOST_FACTS}"
            )
        return self


def _one_source(file: str | None, value: object, pattern: str | None, scale: float) -> None:
    if (file is None) == (value is None):
        raise ValueError("stands either in a file or as value")
    if file is None and (pattern is not None or scale != 1):
        raise ValueError("pattern and scale are for values from a file")
