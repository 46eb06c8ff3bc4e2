"""One device of a slice, as JSON of resource.k8s.io/v1.

In: a card, and the partition of it if it is one. Out: name, attributes, capacity, what it consumes, taints. Standard
attributes: KEP-4381 (pcieRoot, pciBusID) and KEP-6072 (numaNode, an int, left out when unknown).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from apportion.agent.devices.values import Card, CardKind, CounterAmounts, Placement, Profile
from apportion.agent.slices.naming import PartitionDevice, camel, card_of, partition_device
from apportion.agent.slices.nodeinventory import GUARD, SharedCard, StaticPartition
from apportion.agent.slices.shares import held_attributes, shared_capacity
from apportion.api.contract import COUNTER_SET_SUFFIX
from apportion.dra.device import Scalar
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver
from apportion.dra.taint import Taint

STANDARD = "resource.kubernetes.io"
MOST_FACTS = 32
"""Attributes and capacities of one device together (API limit)."""
_BY_NVLINK = frozenset({"nvlinkGroup", "clusterUUID", "cliqueID"})
Json = dict[str, Any]


def whole(
    card: Card, taints: tuple[Taint, ...], shared: SharedCard | None = None, not_shared: str = ""
) -> Json:
    """Return the card itself; where it can be cut, it consumes everything that its partitions share.

    `shared`: it serves several claims at once; `not_shared`: why it does not, although its node shares its GPUs.
    """
    own: dict[str, Scalar] = {"type": card.type or str(card.kind), "uuid": card.uuid}
    device: Json
    if shared is None:
        reason: dict[str, Scalar] = {"notShared": not_shared} if not_shared else {}
        written = attributes({**own, **reason, **_shared(card)})
        device = {"name": card.name, "attributes": written, **_capacity(card.capacity)}
    else:
        own |= {"sharing": str(shared.sharing.strategy)}
        device = {
            "name": card.name,
            "attributes": attributes(
                {**own, **held_attributes(card, shared.sharing, shared.held), **_shared(card)}
            ),
            "capacity": shared_capacity(card, shared.sharing, shared.held),
            "allowMultipleAllocations": True,
        }
    if card.totals:
        device |= _consumes(card, card.totals, Placement(0, card.slices))
    elif card.part_of:
        taken = counters(card.takes, None, keep=card.takes)
        device["consumesCounters"] = [{"counterSet": counter_set(card.part_of), "counters": taken}]
    return device | _tainted(taints)


def partition(card: Card, part: PartitionDevice, taints: tuple[Taint, ...]) -> Json:
    """Return a partition that can be cut on demand."""
    device = {
        "name": part.name,
        "attributes": attributes({**_parent_attributes(card, part.profile), **_inherited(card)}),
        **_capacity(part.profile.amounts),
    }
    return device | _consumes(card, part.profile.amounts, part.placement) | _tainted(taints)


def static(card: Card, made: StaticPartition, profile: Profile, taints: tuple[Taint, ...]) -> Json:
    """Return a partition that a layout made: it exists, so it has a UUID and shares no counters."""
    own = {**_parent_attributes(card, profile), "uuid": made.uuid, "layout": made.layout}
    written = attributes({**own, **_inherited(card)})
    capacity = {camel(key): {"value": amount(key, value)} for key, value in profile.amounts.items()}
    # NVIDIA's driver publishes the memory slices of a MIG device as capacity. Dynamic partitions have them as counters.
    place = range(made.placement.start, made.placement.start + made.placement.size) if made.placement else ()
    slices = {f"memorySlice{index}": {"value": "1"} for index in place} if card.slices else {}
    if len(written) + len(capacity) + len(slices) <= MOST_FACTS:
        capacity |= slices
    return {
        "name": made.device,
        "attributes": written,
        **({"capacity": capacity} if capacity else {}),
        **_tainted(taints),
    }


def device_attributes(device: str, cards: Mapping[str, Card], uuid: str, *, layout: str = "") -> Json:
    """Return the attributes of a device that exists, as containers may read them; {} for an unknown one."""
    card = card_of(device, dict(cards))
    if card is None:
        return {}
    found = partition_device(card, device)
    own: dict[str, Scalar] = (
        {"type": card.type or str(card.kind)} if found is None else _parent_attributes(card, found.profile)
    )
    layouts: dict[str, Scalar] = {"layout": layout} if layout else {}
    common = _shared(card) if found is None else _inherited(card)
    return attributes({**own, "uuid": uuid, **layouts, **common})


def counter_set(card: str) -> str:
    """Return the name of a card's counter set."""
    return f"{card}{COUNTER_SET_SUFFIX}"


def counters(amounts: CounterAmounts, placement: Placement | None, *, keep: CounterAmounts) -> Json:
    """Return counters as JSON: amounts that the card has at all (`keep`), and a counter per memory slice."""
    found = {key: {"value": amount(key, value)} for key, value in amounts.items() if keep[key]}
    if placement is not None:
        for index in range(placement.start, placement.start + placement.size):
            found[f"memory-slice-{index}"] = {"value": "1"}
    return found


@lru_cache(maxsize=4096)
def amount(key: str, value: int) -> str:
    """Write an amount canonically, as the API server stores it, so that comparing needs no parsing."""
    return str(Quantity.whole(value, "BinarySI" if key == "memory" else "DecimalSI"))


def attributes(values: dict[str, Scalar]) -> Json:
    """Write attributes with their types."""
    return {name: _typed(value) for name, value in values.items()}


def _shared(card: Card) -> dict[str, Scalar]:
    place = card.location
    found: dict[str, Scalar] = dict(card.attributes)
    # Unknown is left out: a constraint would take two cards of unknown place for cards of the same place.
    if place.pci_bus_id:
        found[f"{STANDARD}/pciBusID"] = place.pci_bus_id
    if place.pcie_root:
        found[f"{STANDARD}/pcieRoot"] = place.pcie_root
    if place.numa_node is not None:
        found[f"{STANDARD}/numaNode"] = place.numa_node
    return found


def _inherited(card: Card) -> dict[str, Scalar]:
    # MIG switches NVLink off between instances (NVIDIA MIG User Guide), so partitions are in no NVLink group, and no clique.
    return {name: value for name, value in _shared(card).items() if name not in _BY_NVLINK}


def _parent_attributes(card: Card, profile: Profile) -> dict[str, Scalar]:
    if card.kind is CardKind.GPU:
        return {"type": "mig", "parentUUID": card.uuid, "profile": profile.name}
    return {"type": "vnpu", "parentUUID": card.uuid, "template": profile.name}


def _capacity(amounts: CounterAmounts) -> Json:
    if not amounts:
        return {}
    return {"capacity": {camel(key): {"value": amount(key, value)} for key, value in amounts.items()}}


def _consumes(card: Card, amounts: CounterAmounts, placement: Placement | None) -> Json:
    # A template that uses none of an engine consumes nothing of it; zeros would only cost bytes.
    taken = {key: value for key, value in amounts.items() if value}
    found = counters(taken, placement, keep=card.totals)
    return {"consumesCounters": [{"counterSet": counter_set(card.name), "counters": found}]}


def _tainted(taints: tuple[Taint, ...]) -> Json:
    return {"taints": [_taint(taint) for taint in dict.fromkeys((GUARD, *taints))]}


def _taint(taint: Taint) -> Json:
    raw = {"key": taint.key, "effect": taint.effect}
    return raw | ({"value": taint.value} if taint.value else {})


def _typed(value: Scalar) -> Json:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case Semver():
            return {"version": str(value)}
        case _:
            return {"string": value}
