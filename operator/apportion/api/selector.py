"""Selectors: of nodes and DeviceClasses by labels, of devices by CEL."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apportion.api.model import Model, listed
from apportion.dra.selection import Requirement


class LabelOperator(StrEnum):
    """Operator of a condition on a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(Model):
    """One condition on one label."""

    rules = (
        {
            "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "message": "In and NotIn need values, Exists and DoesNotExist take none",
        },
    )

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """Key of the label."""
    operator: LabelOperator
    """In, NotIn (value is, is not one of values), Exists, DoesNotExist (the label is there, is not there)."""
    values: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], listed("atomic", most=64)] = ()
    """Values for In and NotIn."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with these labels meets the condition (meta/v1 LabelSelectorRequirement)."""
        return Requirement(self.key, self.operator, self.values).matches(labels.get(self.key))


class LabelSelector(Model):
    """Objects with these labels. All conditions must hold; a selector without conditions selects every object."""

    match_labels: dict[str, Annotated[str, Field(max_length=63)]] = Field(default_factory=dict, max_length=64)
    """Labels that the object must have, with exactly these values."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], listed("atomic", most=32)] = ()
    """Further conditions on labels."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether it selects an object with these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )


class CelSelector(Model):
    """A CEL expression over one device, as in a ResourceClaim."""

    expression: Annotated[str, Field(min_length=1, max_length=10240)]
    """Returns true for a selected device; can read device.driver, device.attributes and device.capacity.
    Example: device.attributes['gpu.apportion.dev'].productName == 'NVIDIA H100 80GB HBM3'"""


class DeviceSelector(Model):
    """A condition on devices (the same shape as `selectors` of a ResourceClaim's request)."""

    cel: CelSelector
    """A CEL expression."""
