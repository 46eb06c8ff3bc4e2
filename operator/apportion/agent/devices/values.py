"""Cards, profiles and partitions: the values that all backends return.

In: nothing. Out: frozen values. Amounts are whole numbers by name (`memory` in bytes, everything else a count);
the names are those of the counters that the slices publish, so no table of translations exists anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from apportion.dra.device import Scalar

CounterAmounts = Mapping[str, int]
"""How much of what: `memory` in bytes, engines, cores and the like as counts."""

MIB = 2**20

VIRTUAL_FUNCTIONS = "virtual-functions"
"""Counter of a NIC with SR-IOV: how many of its virtual functions nobody has. The NIC itself takes them all."""

UNCUT = "notPartitionable"
"""Attribute of a card that could be cut and is published whole only; its value is the reason, one word."""


class CardKind(StrEnum):
    """What a card is, of those that have a backend of their own; a configuration of generic devices names other kinds."""

    GPU = "gpu"
    NPU = "npu"
    NIC = "nic"


class Health(StrEnum):
    """The health of a card."""

    HEALTHY = "Healthy"
    SICK = "Sick"
    """New work should stay away; running work may go on."""
    LOST = "Lost"
    """The card does not answer; work on it is lost."""
    RELEASED = "Released"
    """Nobody asks the card, because its driver is let go of for an upgrade or a reset: it is as last seen."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file for containers (CDI `deviceNodes`)."""

    path: str
    host_path: str = ""
    """Where it is on the host, if its name differs there (a vNPU)."""
    major: int | None = None
    minor: int | None = None


WRITABLE = ("rw", "nosuid", "nodev", "rbind", "rprivate")
"""Options of a mount that containers may write to."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host for containers, read-only unless `options` say otherwise (CDI `mounts`)."""

    host_path: str
    """As the host sees it, not the agent's container."""
    container_path: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "rbind", "rprivate")


@dataclass(frozen=True, slots=True)
class Hook:
    """A program of the host that the runtime runs while it makes a container (CDI `hooks`)."""

    path: str
    args: tuple[str, ...]
    """The first one is the program's own name."""
    stage: str = "createContainer"


@dataclass(frozen=True, slots=True)
class Edits:
    """What a container needs to use a device (CDI `containerEdits`)."""

    env: tuple[tuple[str, str], ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    """What devices have in common (driver libraries) may stand in each: the file of a claim has it once."""
    hooks: tuple[Hook, ...] = ()
    warning: str = ""
    """Message for a person: something is missing, but the container can start."""


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Where a partition lies on its card.

    MIG: first memory slice and number of memory slices. vNPU: its id, size 1. Together with the card and the
    profile it identifies a partition; UUIDs do not, they change on each re-creation.
    """

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One shape that a card can be cut into."""

    name: str
    """As the vendor writes it: `1g.10gb+me`, `vir05_1c_8g`."""
    amounts: CounterAmounts
    """What one such partition takes from its card."""
    number: int | None = None
    """GPU instance profile id; templates of NPUs have none."""
    placements: tuple[Placement, ...] = ()
    """Where it may lie; empty when the driver chooses the place (vNPU)."""
    most: int = 0
    """How many of it fit on an empty card."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a card is plugged in."""

    pci_bus_id: str
    """`0000:9d:00.0`, lower case."""
    pcie_root: str
    """`pci<domain>:<bus>`."""
    numa_node: int | None = None
    """None when the platform does not report it (sysfs -1)."""


@dataclass(frozen=True, slots=True)
class Card:
    """One physical device: a GPU, an NPU chip, a NIC or a generic device."""

    name: str
    """The name of its device in slices: `gpu-0`, `npu-0`, `nic-mlx5-0`. No other card of the node has it, of no backend."""
    kind: str
    """A CardKind, or a kind of generic device. Cards of one kind have one driver."""
    uuid: str
    location: Location
    attributes: Mapping[str, Scalar] = field(default_factory=dict)
    """Its attributes under the names that slices publish."""
    capacity: CounterAmounts = field(default_factory=dict)
    """What the whole card offers; published as its capacity."""
    totals: CounterAmounts = field(default_factory=dict)
    """What partitions can take from it together; empty when it cannot be cut."""
    slices: int = 0
    """Memory slices (MIG); 0 when placements play no part."""
    profiles: tuple[Profile, ...] = ()
    instance_ids: tuple[int, ...] = ()
    """Ids that its partitions may get, when the caller chooses them (vNPU)."""
    parts_only: bool = False
    """It cannot be used uncut as it is: MIG mode is on, and switching it off takes a reset."""

    part_of: str = ""
    """Name of the card that it is a part of, and exists by itself: a virtual function of a NIC, a part of a generic device."""
    takes: CounterAmounts = field(default_factory=dict)
    """What a part takes of that card's `totals`."""
    type: str = ""
    """Its `type` attribute, where that is not its kind: that of a part."""
    former_uuid: str = ""
    """The UUID that it had before, and may have in rows and files of claims; "" where it always had the same one."""

    def profile(self, name: str) -> Profile | None:
        """Return the profile of this name, None when the card does not offer it."""
        return next((profile for profile in self.profiles if profile.name == name), None)


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition as it is on the hardware now, made by apportion or not; a journal row says which are ours."""

    card: str
    """Name of its card."""
    profile: str
    placement: Placement
    uuid: str
    """"" while it is half made."""
    instance: Mapping[str, str] = field(default_factory=dict)
    """The driver's ids: `gpuInstance` and `computeInstance`, or `vnpu`."""
    complete: bool = True
    """False for a GPU instance without its compute instance: a crash came between the two calls."""
    in_use: bool | None = False
    """A process or container holds it; None: the driver does not tell this process."""
    edits: Edits = Edits()

    @property
    def place(self) -> "PartitionPlace":
        """Its identity."""
        return PartitionPlace(self.card, self.profile, self.placement)


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """The identity of a partition on the node: card, profile, placement. UUIDs change when it is made again."""

    card: str
    profile: str
    placement: Placement

    def __str__(self) -> str:
        return f"{self.profile} at {self.placement.start} of {self.card}"
