"""Partition: one MIG instance or vNPU on one node, desired or existing."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from apportion.api.model import (
    Conditions,
    DeviceName,
    DriverName,
    Model,
    NodeName,
    ObjectMeta,
    PoolName,
    ProfileName,
    listed,
)


class Origin(StrEnum):
    """Why a partition exists."""

    CLAIM = "Claim"
    LAYOUT = "Layout"
    WARM = "Warm"


class Phase(StrEnum):
    """Phase in the life of a partition."""

    PENDING = "Pending"
    CREATING = "Creating"
    READY = "Ready"
    IDLE = "Idle"
    RELEASING = "Releasing"
    FAILED = "Failed"


class HolderKind(StrEnum):
    """What can hold a partition."""

    CLAIM = "ResourceClaim"
    LAYOUT = "PartitionLayout"


class Placement(Model):
    """Position of a MIG partition on its card."""

    start: Annotated[int, Field(ge=0, le=63)]
    """First memory slice, counted from 0."""
    size: Annotated[int, Field(ge=1, le=64)]
    """Number of memory slices."""


class Holder(Model):
    """The object that uses a partition."""

    rules = (
        {
            "rule": "(self.kind == 'ResourceClaim') == has(self.__namespace__)",
            "message": "a ResourceClaim has a namespace, a PartitionLayout has none",
        },
    )

    kind: HolderKind
    """ResourceClaim or PartitionLayout."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Namespace of a ResourceClaim; absent for a PartitionLayout."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the holder."""
    uid: Annotated[str, Field(min_length=1, max_length=64)]
    """UID of the holder: a new object of the same name is another holder."""


_IMMUTABLE = ("nodeName", "driver", "pool", "device", "parent", "profile", "origin")


class PartitionSpec(Model):
    """The desired partition. Only `holder` may change; anything else is another Partition."""

    rules = (
        *(
            {
                "rule": f"self.{field} == oldSelf.{field}",
                "message": f"{field} is immutable; only holder may change",
                "fieldPath": f".{field}",
            }
            for field in _IMMUTABLE
        ),
        {
            "rule": "has(self.placement) == has(oldSelf.placement)"
            " && (!has(self.placement) || self.placement == oldSelf.placement)",
            "message": "placement is immutable; only holder may change",
            "fieldPath": ".placement",
        },
        {
            "rule": "(self.origin == 'Layout') =="
            " (has(self.holder) && self.holder.kind == 'PartitionLayout')",
            "message": "a partition of origin Layout is held by its PartitionLayout, any other by a ResourceClaim or by nobody",
        },
    )

    node_name: NodeName
    """Node that the partition is on."""
    driver: DriverName
    """DRA driver that publishes the card, for instance gpu.apportion.dev."""
    pool: PoolName
    """Resource pool of the card; usually the name of the node."""
    device: DeviceName
    """Device in the pool that this partition is: a published placement (gpu-0-mig-1g10gb-19-3), or for a
    layout's partition the device of its own that it becomes (gpu-0-mig-1g10gb-19-3-static)."""
    parent: DeviceName
    """Device of the whole card that the partition is cut from, for instance gpu-0."""
    profile: ProfileName
    """MIG profile (1g.10gb) or Ascend vNPU template (vir05_1c_16g)."""
    placement: Placement | None = None
    """Position on the card, in memory slices. Absent for vNPUs: their driver places them itself."""
    origin: Origin
    """Why it was made. Claim: a ResourceClaim got this device. Layout: a PartitionLayout asks for it. Warm: an
    AllocationPolicy keeps some ready."""
    holder: Holder | None = None
    """The object that uses it. Absent: it is idle, and is kept for the next claim until the policy's idle timeout
    ends."""


class PartitionStatus(Model):
    """The partition as the node agent reports it."""

    phase: Phase | None = None
    """Pending: not begun, or waiting for room on the card. Creating: being cut. Ready: usable by its holder.
    Idle: usable, without a holder. Releasing: being removed. Failed: the driver refused, see conditions."""
    instance: dict[str, Annotated[str, Field(max_length=128)]] = Field(default_factory=dict, max_length=16)
    """Ids that the driver gave, for instance gpuInstance and computeInstance of a MIG partition, vnpu of a vNPU."""
    uuid: Annotated[str, Field(max_length=128)] | None = None
    """UUID that the driver gave, for instance MIG-1f2e...; absent before the cut and for drivers that give none."""
    prepared_by: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], listed("set", most=256)] = ()
    """UIDs of the ResourceClaims whose containers may use it now. Not empty: it is in use, never removed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status describes."""
    conditions: Conditions = ()
    """Details, by type: Ready, and Failed with the driver's reason."""

    @property
    def message(self) -> str:
        """What its condition Ready says; "" without one."""
        return next((known.message for known in self.conditions if known.type == "Ready"), "")


class Partition(Model):
    """One partition of an accelerator on one node: a MIG instance of an NVIDIA GPU or a vNPU of an Ascend NPU.

    The operator writes it; the node agent cuts it and reports its status. Do not create it by hand: write a PartitionLayout.
    """

    api_version: Literal["apportion.dev/v1alpha1"] = "apportion.dev/v1alpha1"
    kind: Literal["Partition"] = "Partition"
    metadata: ObjectMeta
    spec: PartitionSpec
    """The desired partition. Only `holder` may change."""
    status: PartitionStatus = PartitionStatus()
    """The partition as the node agent reports it."""
