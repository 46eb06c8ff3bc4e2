"""The ladder of an AllocationPolicy: which devices are close to each other."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apportion.api.model import AttributeName, DriverName, Model, listed

_DOMAIN_LENGTH = {
    "rule": "self.attribute.indexOf('/') <= 63",
    "message": "the domain of an attribute has at most 63 characters",
    "fieldPath": ".attribute",
}


class LadderScope(StrEnum):
    """Whether closeness decides about nodes, too."""

    CLUSTER = "Cluster"
    NODE = "Node"


class RungSplit(StrEnum):
    """How a set of devices is divided that does not fit on one value of the attribute."""

    CLOSEST = "Closest"
    EVEN = "Even"


class DriverAttribute(Model):
    """The attribute that one driver uses for a level."""

    rules = (_DOMAIN_LENGTH,)

    driver: DriverName
    """Name of the driver."""
    attribute: AttributeName
    """Qualified name of the attribute that its devices carry."""


class FillOrder(Model):
    """From which value a number of devices is best taken."""

    take: Annotated[int, Field(ge=1, le=32)]
    """How many devices are taken from one value."""
    free: Annotated[tuple[Annotated[int, Field(ge=1, le=128)], ...], listed("set", least=1, most=32)]
    """How many devices the value has free, best first. Counts that are not listed come after them, fewest first."""


class Fill(Model):
    """Take devices from the value that has the fewest free, so that the others stay whole."""

    order: Annotated[tuple[FillOrder, ...], listed("map", key="take", most=32)] = ()
    """Exceptions, by how many devices are taken from one value. Default: none."""


class LadderRung(Model):
    """One level of closeness."""

    rules = (_DOMAIN_LENGTH,)

    attribute: AttributeName
    """Qualified name of a device attribute; devices with the same value are close at this level. A device that lists
    several values counts for the first. Example: resource.kubernetes.io/pcieRoot"""
    drivers: Annotated[tuple[DriverName, ...], listed("set", most=16)] = ()
    """Drivers whose devices this level compares, in addition to those in perDriver. Absent: all that publish the
    attribute."""
    per_driver: Annotated[tuple[DriverAttribute, ...], listed("map", key="driver", most=16)] = ()
    """Drivers that publish the same values under a name of their own: their devices are close to all others with the
    same value. Default: none."""
    fill: Fill | None = None
    """From which value devices are taken when several are equally close; it takes precedence over the strategy. Absent:
    the strategy alone decides."""
    split: RungSplit = RungSplit.CLOSEST
    """How a set of devices is divided that does not fit on one value. Closest: as many together as possible. Even: the
    same number from each value."""
