"""What is to be published, as one value: cards, their health, and what is taken out of their counters.

In: nothing. Out: a frozen value that `pool.py` turns into slices; two equal inventories give equal slices.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apportion.agent.devices.values import Card, Health, PartitionPlace, Placement
from apportion.agent.slices.naming import partition_devices
from apportion.agent.slices.shares import Held, PublishedSharing
from apportion.api.contract import GUARD as GUARD_KEY
from apportion.api.contract import HELD
from apportion.api.contract import SHARED as SHARED_KEY
from apportion.dra.taint import Taint

GUARD = Taint(GUARD_KEY, "NoSchedule")
"""On every device: kube-scheduler's own allocator must not choose it (design: the guard)."""
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
MOST_HELD = 4
"""A device may be prepared for several claims (shares, admin access); the API takes 16 taints on a device in all."""
SICK = Taint("apportion.dev/unhealthy", "NoSchedule", "sick")
LOST = Taint("apportion.dev/unhealthy", "NoExecute", "lost")
RELEASED = Taint("apportion.dev/unhealthy", "NoSchedule", "released")
PARTS_ONLY = Taint("apportion.dev/parts-only", "NoSchedule")
"""On a whole card of which only partitions can be used: in MIG mode until a reset, or cut although it is published without profiles."""
FOREIGN = Taint("apportion.dev/foreign", "NoSchedule")
"""On every device of a card with a foreign partition, with `--foreign quarantine`."""
PLUGIN = Taint("apportion.dev/device-plugin", "NoSchedule")
"""On every device of a kind of cards that a device plugin offers on the node as well."""
SHARED = Taint(SHARED_KEY, "NoSchedule")
"""On what a shared card could be cut into: the claims that share it would not be all that use it."""
REFUSED = Taint("apportion.dev/refused", "NoExecute")
"""On a partition that the driver refused as unsupported; NoExecute evicts pods that wait for it."""

BY_HEALTH: Mapping[Health, tuple[Taint, ...]] = {
    Health.SICK: (SICK,),
    Health.LOST: (LOST,),
    Health.RELEASED: (RELEASED,),
}


def off_fabric(why: str) -> Taint:
    """Return the taint on a whole card that has not joined its fabric; its partitions do without."""
    return Taint("apportion.dev/fabric", "NoSchedule", why)


def held_for(claim: str, *, blocks: bool = True) -> Taint:
    """Return the taint on what is still prepared for a claim (UID) that has lost it; it goes after unprepare.

    One that does not block (effect None) tells the operator where the claim's containers may run, and nothing more.
    """
    return Taint(HELD, "NoSchedule" if blocks else "None", claim if is_uid(claim) else "")


def is_uid(claim: str) -> bool:
    """Say whether the UID of a claim can be published: `node prepare` takes any from a file; a taint's value must be a valid label value."""
    return _VALUE.fullmatch(claim) is not None


@dataclass(frozen=True, slots=True)
class StaticPartition:
    """A partition that a layout made: a device of its own."""

    device: str
    card: str
    profile: str
    placement: Placement | None
    uuid: str
    layout: str


def all_devices(card: Card, static: Iterable[StaticPartition]) -> list[str]:
    """Return the names of all devices of a card: the whole, what it can be cut into, and what layouts made of it."""
    made = [part.device for part in static if part.card == card.name]
    return [card.name, *made, *(part.name for part in partition_devices(card))]


@dataclass(frozen=True, slots=True)
class SharedCard:
    """How a card serves several claims."""

    sharing: PublishedSharing
    held: Held


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """The node as the cluster should see it."""

    cards: tuple[Card, ...]
    health: Mapping[str, Health] = field(default_factory=dict)
    """By card; a card that is not named is healthy."""
    occupied: tuple[PartitionPlace, ...] = ()
    """Partitions of layouts, foreign ones, held ones: subtracted from the counters."""
    blocked: frozenset[str] = frozenset()
    """Cards of which nothing can be cut: held whole, or with a partition that no profile describes."""
    static: tuple[StaticPartition, ...] = ()
    taints: Mapping[str, tuple[Taint, ...]] = field(default_factory=dict)
    """Further taints by device name."""
    untainted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Claims (UIDs) that have lost a device, and for which it has no taint, by device name: there are more than it has room for."""
    shared: Mapping[str, SharedCard] = field(default_factory=dict)
    """By card; a card that is not named serves one claim at a time."""
    not_shared: Mapping[str, str] = field(default_factory=dict)
    """Why a card of a node that shares its GPUs is not shared, by card."""
