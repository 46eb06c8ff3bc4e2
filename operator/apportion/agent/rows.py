"""The rows of the journal: partitions and claims, each with how far it is, and how claims have had their devices set up.

In: nothing. Out: frozen values that `journal` writes and reads, and that the workers decide by.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from apportion.agent.devices.sharing import TimeSlice
from apportion.agent.devices.values import LivePartition, PartitionPlace
from apportion.agent.laterfields import without_later
from apportion.errors import NotReady


class Step(StrEnum):
    """How far a partition is."""

    INTENT = "Intent"
    """About to be made: what is found at its place, and not in use, was made by us."""
    CREATED = "Created"
    READY = "Ready"
    RELEASING = "Releasing"


class ClaimStep(StrEnum):
    """How far a claim's devices are."""

    PREPARING = "Preparing"
    INJECTED = "Injected"
    """The CDI file exists."""
    PREPARED = "Prepared"
    UNPREPARING = "Unpreparing"


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """What the journal knows of one partition that this agent makes, has made or removes.

    A Partition (API) says what is wanted, a LivePartition what is on the hardware; a row says how far we are, and survives a crash.
    """

    uid: str
    """UID of the Partition object: what it belongs to."""
    name: str
    device: str
    place: PartitionPlace
    step: Step
    layout: str = ""
    """The PartitionLayout that asked for it; empty for claims and warm ones."""
    instance: Mapping[str, str] = field(default_factory=dict)
    uuid: str = ""
    card_uuid: str = ""
    """UUID of the card that it lies on; "" when that was never known (a row of an older release)."""

    def may_be(self, found: LivePartition) -> bool:
        """Say whether what lies at its place is it, as far as the row knows. Without a UUID (a cut that was not answered) the place alone says so.

        What is in use is not: before its UUID is written down, nobody is given it.
        """
        return self.uuid == found.uuid or (self.uuid == "" and found.in_use is not True)

    def is_half(self, found: LivePartition) -> bool:
        """Say whether it is our GPU instance without its compute instance: in the middle of a cut or removal, or removed by a person."""
        own = self.instance.get("gpuInstance")
        return not found.complete and own is not None and found.instance.get("gpuInstance") == own

    def is_at(self, found: LivePartition) -> bool:
        """Say whether what lies at its place is it, or half of it."""
        return self.may_be(found) or self.is_half(found)


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a device that one claim has, beside others (KEP-5075)."""

    id: str
    """The allocation's `shareID`, a UUID."""
    memory: int = 0
    """Bytes that it consumes of the device's memory."""
    cores: int = 0
    """Percent that it consumes of the device's cores: its programs then go through MPS, which keeps both limits. 0: they take turns."""


BY_HAND = "by-hand"
"""Begins the UID of a partition that was cut without a Partition object."""


@dataclass(frozen=True, slots=True)
class ClaimDevice:
    """One device that a claim uses."""

    device: str
    card: str
    pool: str
    requests: tuple[str, ...]
    cdi: str
    partition: str = ""
    """UID of the Partition behind it; empty for whole cards."""
    admin: bool = False
    """Allocated with admin access: other claims may use the device too."""
    card_uuid: str = ""
    """UUID of its card; "" when that was never known (a row of an older release)."""
    share: Share | None = None
    """None: the claim has the device for itself."""

    @property
    def id(self) -> tuple[str, str]:
        """Name and share ID: what tells it from the other devices of its claim."""
        return self.device, self.share.id if self.share is not None else ""

    @property
    def by_hand(self) -> bool:
        """Whether its partition was cut without a Partition object."""
        return self.partition.startswith(BY_HAND)

    def clashes(self, other: "ClaimDevice") -> bool:
        """Say whether both cannot be in use at once: the same device or share, or a whole card and a part of it."""
        if self.admin or other.admin or self.card != other.card:
            return False
        if self.device == other.device and self.share is not None and other.share is not None:
            # Under MPS the card takes programs of its control daemon only.
            return self.share.id == other.share.id or bool(self.share.cores) != bool(other.share.cores)
        return self.device == other.device or self.card in {self.device, other.device}


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One claim's devices of one driver."""

    uid: str
    driver: str
    namespace: str
    name: str
    step: ClaimStep
    devices: tuple[ClaimDevice, ...]

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def uses(self) -> list[tuple[object, ...]]:
        """Its devices, and for which requests, as they stay for as long as it has them: a partition may be handed over to another Partition."""
        return [(*each.id, each.requests) for each in self.devices]

    @property
    def by_hand(self) -> bool:
        """Whether an administrator prepares it, on the node and without the API."""
        return any(device.by_hand for device in self.devices)

    def holds(self, device: str, wanted: str) -> NotReady:
        """Return the error for another claim that wants a device, because of one that this claim has."""
        return NotReady(
            f"device {wanted} is held by ResourceClaim {self.key} (uid {self.uid}), which has"
            f" {device} prepared; it is free after that claim is unprepared"
        )


@dataclass(frozen=True, slots=True)
class SharedDevice:
    """A device that a claim has had set up for the programs that share it."""

    device: str
    card_uuid: str
    uuid: str
    """That of the card for a whole one, else the partition's."""
    time_slice: TimeSlice = TimeSlice.DEFAULT
    mps: bool = False
    """Whether programs use it through a control daemon."""
    memory: int | None = None
    """Most memory of it for one program under MPS, in MiB."""

    @property
    def whole(self) -> bool:
        """Whether it is a whole card."""
        return self.uuid == self.card_uuid


@dataclass(frozen=True, slots=True)
class SharingRow:
    """What one claim has had set up, written before anything is, and dropped after all of it was taken back."""

    uid: str
    driver: str
    devices: tuple[SharedDevice, ...]
    percentage: int | None = None
    """Most threads for one program under MPS, in percent."""
    multi_user: bool = False
    own_limits: bool = False
    """The limits are this claim's, set in its containers: the daemon has none, and serves other claims of its devices, too."""
    done: bool = False
    """All of it was set up."""

    @classmethod
    def from_json(cls, text: str) -> "SharingRow":
        """Return the row that `to_json` wrote. Raises ValueError, TypeError or KeyError for any other text."""
        raw: dict[str, Any] = json.loads(text)
        devices = (
            SharedDevice(**{**without_later(SharedDevice, each), "time_slice": TimeSlice(each["time_slice"])})
            for each in raw["devices"]
        )
        return cls(**{**without_later(cls, raw), "devices": tuple(devices)})

    def to_json(self) -> str:
        """Return the row as text."""
        return json.dumps(asdict(self))

    @property
    def under_mps(self) -> tuple[SharedDevice, ...]:
        """The devices of its control daemon, in the order of their UUIDs."""
        return tuple(sorted((each for each in self.devices if each.mps), key=lambda each: each.uuid))

    @property
    def daemon(self) -> str:
        """Name of its control daemon, "" without one: the same for all claims that share the same devices."""
        uuids = ",".join(each.uuid for each in self.under_mps)
        return uuid.uuid5(uuid.NAMESPACE_OID, uuids).hex if uuids else ""


class NetworkStep(StrEnum):
    """Where the interface of a NIC is that a claim has asked for."""

    WAITING = "Waiting"
    """On the host; its pod's sandbox has not begun, or has ended."""
    MOVING = "Moving"
    """On the host or in the pod: what it was on the host is in the row."""
    MOVED = "Moved"
    RETURNING = "Returning"
    """In the pod or on the host, and not yet what it was there."""


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """The interface of one NIC of a claim, from the claim's first prepare to its unprepare."""

    claim: str
    """UID of the claim."""
    driver: str
    device: str
    card: str
    pod: str
    """UID of the pod whose network it belongs to."""
    interface: str
    """Its name on the host."""
    wanted: str
    """The claim's parameters, as JSON."""
    step: NetworkStep = NetworkStep.WAITING
    before: str = ""
    """How the interface was on the host, as JSON; "" before it was first moved."""
    nic: str = ""
    """Name of the RDMA device where it has to be moved with its interface; "" where all namespaces see it."""

    @classmethod
    def from_columns(cls, columns: Mapping[str, str]) -> "NetworkRow":
        """Return the row of these columns. Raises ValueError, TypeError or KeyError where they are none of a row."""
        return cls(**{**without_later(cls, columns), "step": NetworkStep(columns["step"])})

    @property
    def key(self) -> str:
        """Name of it on the node, for files."""
        return f"{self.claim}-{self.device}"
