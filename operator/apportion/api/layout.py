"""PartitionLayout: partitions that are cut before claims ask for them, and become devices of their own."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from apportion.api.model import Conditions, Model, ObjectMeta, ProfileName, listed
from apportion.api.selector import DeviceSelector, LabelSelector

LAYOUT_HOLD: Final = "PartitionLayout "
"""What the keys begin with under which the allocator holds what layouts want (ADR 4)."""
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_PERCENT = r"^(100|[1-9]?[0-9])%$"


def _number_or_percent(value: int | str) -> int | str:
    if value < 1 if isinstance(value, int) else not re.fullmatch(_PERCENT, value):
        raise ValueError(f"{value!r} is neither a number from 1 nor a percentage from 0% to 100%")
    return value


class LayoutPlacement(Model):
    """Position of one partition on the card."""

    start: Annotated[int, Field(ge=0, le=63)]
    """First memory slice, counted from 0; the profile gives the size."""


class LayoutPartition(Model):
    """How many partitions of one profile every card gets, or at which positions."""

    rules = (
        {
            "rule": "has(self.count) != has(self.placements)",
            "message": "exactly one of count and placements is needed",
        },
    )

    profile: ProfileName
    """MIG profile (1g.10gb) or Ascend vNPU template (vir05_1c_16g). Each profile may appear once."""
    count: Annotated[int, Field(ge=1, le=64)] | None = None
    """Number of partitions on every card; the operator chooses the positions. Either this or placements."""
    placements: (
        Annotated[tuple[LayoutPlacement, ...], listed("map", key="start", least=1, most=64)] | None
    ) = None
    """Exact positions on every card (MIG only). Either this or count."""

    @model_validator(mode="after")
    def _one_of_count_and_placements(self) -> Self:
        if (self.count is None) == (self.placements is None):
            raise ValueError("exactly one of count and placements is needed")
        return self


class LayoutDeviceClasses(Model):
    """The DeviceClasses by which claims ask for a layout's partitions."""

    create: bool = True
    """Whether the operator makes one DeviceClass for each profile, named <layout>-<profile> in lower case with
    only letters, digits and dashes. It never changes a DeviceClass that it did not make."""
    labels: dict[str, Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)]] = Field(
        default_factory=dict, max_length=32
    )
    """Labels for these DeviceClasses, in addition to apportion.dev/managed=true."""


class Rollout(Model):
    """How a changed layout reaches the nodes."""

    max_unavailable: Annotated[
        int | str,
        AfterValidator(_number_or_percent),
        Field(json_schema_extra={"minimum": 1, "maxLength": 4, "pattern": _PERCENT}),
    ] = 1
    """How many nodes may be changed at the same time: a number, or a percentage of the selected nodes (rounded
    up, at least 1)."""
    only_idle: bool = True
    """True: a card is changed only when no claim uses it or a partition of it; until then its node counts as
    blocked. False: unused partitions are changed at once, the others when they are released. A partition in use is
    never removed."""


class PartitionLayoutSpec(Model):
    """The selected cards, and the partitions into which they are cut."""

    node_selector: LabelSelector = LabelSelector()
    """Labels of the nodes. Absent or empty: all nodes that have fitting devices."""
    devices: Annotated[tuple[DeviceSelector, ...], listed("atomic", most=32)] = ()
    """Conditions on whole cards, all of which must hold; the same CEL as in a ResourceClaim. Absent: every card
    that offers all the profiles below."""
    partitions: Annotated[tuple[LayoutPartition, ...], listed("map", key="profile", least=1, most=32)]
    """Partitions of every selected card, one entry for each profile. The rest of a card stays available to claims that
    name a profile."""
    device_classes: LayoutDeviceClasses = LayoutDeviceClasses()
    """The DeviceClasses by which claims ask for these partitions."""
    rollout: Rollout = Rollout()
    """How a changed layout reaches the nodes."""


class LayoutNodes(Model):
    """Numbers of nodes."""

    desired: Annotated[int, Field(ge=0)] = 0
    """Nodes with at least one selected card."""
    ready: Annotated[int, Field(ge=0)] = 0
    """Nodes whose selected cards all have the layout."""
    blocked: Annotated[int, Field(ge=0)] = 0
    """Nodes that cannot get the layout now, because cards are in use or the partitions do not fit; see conditions."""


class PartitionLayoutStatus(Model):
    """How far the layout has come."""

    nodes: LayoutNodes = LayoutNodes()
    """Numbers of nodes."""
    device_classes: Annotated[tuple[Annotated[str, Field(max_length=253)], ...], listed("set", most=32)] = ()
    """Names of the DeviceClasses that the operator made for this layout."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status describes."""
    conditions: Conditions = ()
    """Details, by type: Ready, and Accepted, which is False when the layout cannot work as written."""


class PartitionLayout(Model):
    """Static partitions: cuts the selected cards before claims ask for them, and makes DeviceClasses for the result.

    Each partition becomes a device with the attribute `layout`, which claims use like any other device.
    """

    api_version: Literal["apportion.dev/v1alpha1"] = "apportion.dev/v1alpha1"
    kind: Literal["PartitionLayout"] = "PartitionLayout"
    metadata: ObjectMeta
    spec: PartitionLayoutSpec
    """The selected cards, and the partitions into which they are cut."""
    status: PartitionLayoutStatus = PartitionLayoutStatus()
    """How far the layout has come."""


def layout_key(name: str, pool: str) -> str:
    """Return the key under which the allocator holds what a layout wants in a pool and has not cut yet: refusals name it as the holder."""
    return f"{LAYOUT_HOLD}{name} on {pool}"
