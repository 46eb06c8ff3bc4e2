"""The pools of a node: from an inventory to the contents of its ResourceSlices. Pure and in a stable order.

In: an inventory, the drivers' names. Out: per driver one pool with its slices; counters and devices sit in slices of
their own (API rule), each card's devices in a slice of their own, so that a change of one card is a change of one slice.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.agent.devices.values import Card, Health, Placement
from apportion.agent.slices import device
from apportion.agent.slices.naming import partition_devices
from apportion.agent.slices.nodeinventory import BY_HEALTH, NodeInventory

DEVICES_PER_SLICE = 64
"""API limit for slices whose devices have taints or consume counters; all of ours have the guard taint."""
SETS_PER_SLICE = 8
"""API limit of counter sets."""

_MOST_NAMED = 250_000
"""Characters that name claims: all annotations of an object may have 256 KiB (apimachinery, `TotalAnnotationSizeLimitB`)."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SliceContent:
    """One slice: either devices or counter sets."""

    key: str
    """Names the slice inside its pool; stable as long as the cards are."""
    field: str
    """`devices` or `sharedCounters`."""
    rows: tuple[Json, ...]
    held: str = ""
    """`DEVICE/UID` of claims that have lost a device, and for which it has no taint, with spaces between them."""


@dataclass(frozen=True, slots=True)
class DriverPool:
    """All slices that one driver publishes for this node."""

    driver: str
    contents: tuple[SliceContent, ...]


def pools(inventory: NodeInventory, drivers: Mapping[str, str]) -> tuple[DriverPool, ...]:
    """Return a pool for every kind of card that the node has."""
    found = []
    for kind, driver in drivers.items():
        cards = [card for card in inventory.cards if card.kind == kind]
        if cards:
            found.append(DriverPool(driver, tuple(_contents(inventory, cards))))
    return tuple(found)


def _contents(inventory: NodeInventory, cards: Sequence[Card]) -> Iterator[SliceContent]:
    sets = [_counters(inventory, card) for card in cards if card.totals]
    for number, part in enumerate(_batched(sets, SETS_PER_SLICE)):
        yield SliceContent(f"counters-{number:02d}", "sharedCounters", part)
    # Cards that cannot be cut are small; they share slices.
    simple = [row for card in cards if not (card.totals or card.part_of) for row in _devices(inventory, card)]
    for number, part in enumerate(_batched(simple, DEVICES_PER_SLICE)):
        yield _content(f"devices-{number:02d}", inventory, part)
    for order, card in enumerate(cards):
        if card.totals:
            family = (card, *(part for part in cards if part.part_of == card.name))
            rows = [row for each in family for row in _devices(inventory, each)]
            for number, part in enumerate(_batched(rows, DEVICES_PER_SLICE)):
                yield _content(f"card-{order:02d}-{number:02d}", inventory, part)


def _content(key: str, inventory: NodeInventory, rows: tuple[Json, ...]) -> SliceContent:
    names = [row["name"] for row in rows if row["name"] in inventory.untainted]
    held = " ".join(f"{name}/{claim}" for name in names for claim in inventory.untainted[name])
    if len(held) > _MOST_NAMED:
        held = held[:_MOST_NAMED].rpartition(" ")[0]
    return SliceContent(key, "devices", rows, held)


def _devices(inventory: NodeInventory, card: Card) -> Iterator[Json]:
    sick = BY_HEALTH.get(inventory.health.get(card.name, Health.HEALTHY), ())
    own = inventory.taints
    shared, not_shared = inventory.shared.get(card.name), inventory.not_shared.get(card.name, "")
    yield device.whole(card, (*sick, *own.get(card.name, ())), shared, not_shared)
    for made in inventory.static:
        profile = card.profile(made.profile) if made.card == card.name else None
        if profile is not None:
            yield device.static(card, made, profile, (*sick, *own.get(made.device, ())))
    for part in partition_devices(card):
        yield device.partition(card, part, (*sick, *own.get(part.name, ())))


def _counters(inventory: NodeInventory, card: Card) -> Json:
    left = Counter(dict(card.totals))
    slices = set(range(card.slices))
    for place in inventory.occupied:
        profile = card.profile(place.profile) if place.card == card.name else None
        if profile is not None:
            left.subtract(profile.amounts)
            slices -= set(range(place.placement.start, place.placement.start + place.placement.size))
    # The claims of those have lost them, and may run all the same.
    for part in inventory.cards:
        if part.part_of == card.name and part.name in inventory.blocked:
            left.subtract(part.takes)
    if card.name in inventory.blocked:
        left, slices = Counter(dict.fromkeys(card.totals, 0)), set()
    # Foreign partitions may take more than the profiles count: nothing below zero is published.
    # What exists by itself takes of a counter also where there is nothing of it, and no counter may be unknown.
    keep = card.totals if card.profiles else dict.fromkeys(card.totals, 1)
    rows = device.counters({key: max(value, 0) for key, value in left.items()}, None, keep=keep)
    every = device.counters({}, Placement(0, card.slices), keep={}) if card.slices else {}
    for index, name in enumerate(every):
        rows[name] = {"value": "1" if index in slices else "0"}
    return {"name": device.counter_set(card.name), "counters": rows}


def _batched(rows: Sequence[Json], size: int) -> Iterator[tuple[Json, ...]]:
    return (tuple(rows[start : start + size]) for start in range(0, len(rows), size))
