"""What is published of a generic device and what a container gets for it, as the administrator describes it.

In: decoded YAML. Out: frozen values, or BrokenInput naming the field. A field that is not known is an error. Limits of names,
texts and counts are those of a device in resource.k8s.io/v1.
"""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StrictBool, model_validator

from apportion.agent.devices.generic.fields import (
    Amount,
    DevPattern,
    FactName,
    HostPath,
    Plain,
    Regex,
    SourceFile,
    Template,
    VariableName,
    check_fixed,
    longhand,
)
from apportion.api.model import Model

MOST_FACTS = 26
"""Attributes and capacities that a configuration may name: 32 (API), less the six that every device may have of its own."""


class Strict(Model):
    """A part of a configuration: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class SourceText(Strict):
    """Text of a file."""

    file: SourceFile
    """Where it stands."""
    pattern: Regex | None = None
    """Its first group, or without groups what it finds, is the text; absent: all of it."""


class Attribute(Strict):
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


class Capacity(Strict):
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


class Node(Strict):
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


class MountPoint(Strict):
    """A file or folder of the host for a container."""

    host: HostPath
    """Where it is on the host."""
    container: HostPath | None = None
    """Where it is in the container; absent: at the same place."""
    read_only: StrictBool = True
    """Whether the container may only read it."""
    optional: StrictBool = False
    """The container may start without."""


class HealthFile(Strict):
    """How a device says that it is well."""

    file: SourceFile
    """Where it says so."""
    healthy: Regex
    """The whole text of a device that is well; every other text, and a file that cannot be read, is a sick device's."""


class Described(Strict):
    """What a card and a part of one have in common."""

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
        facts = self.facts
        if facts > MOST_FACTS:
            raise ValueError(
                f"{facts} attributes and capacities are too many: a device has room for {MOST_FACTS}"
            )
        return self

    @property
    def facts(self) -> int:
        """How many attributes and capacities it names."""
        return len(self.attributes) + len(self.capacity)


def _one_source(file: str | None, value: object, pattern: str | None, scale: float) -> None:
    if (file is None) == (value is None):
        raise ValueError("stands either in a file or as value")
    if file is None and (pattern is not None or scale != 1):
        raise ValueError("pattern and scale are for values from a file")
