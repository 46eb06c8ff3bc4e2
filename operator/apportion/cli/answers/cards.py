"""Cards: what of each card is held, by whom, and how scattered the rest is.

In: a snapshot. Out: for each card of each node a map of its slices, its holders, and the largest partition that fits. A slice is a memory
slice of a GPU; of cards whose driver places partitions itself one unit of the counter that has the most units (aicore of an NPU).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from string import ascii_lowercase, ascii_uppercase

from apportion.api.contract import GUARD
from apportion.cli.answers.holders import Holder, holders
from apportion.cli.answers.largest import kind_of_device
from apportion.cli.world.holds import Holds
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device, DeviceId
from apportion.dra.quantity import NANO
from apportion.dra.taint import Taint

MOST_SLICES = 64
"""Longer maps are drawn as one slice."""
FREE, UNKNOWN = ".", "?"
_FURTHER = chain(range(0x100, 0x590), range(0x4E00, 0xA000))
"""Further letters of Unicode (Latin, Greek, Cyrillic, Armenian, then ideographs): a card that is shared may have hundreds of holders."""
_LETTERS = ascii_uppercase + ascii_lowercase + "".join(filter(str.isalpha, map(chr, _FURTHER)))


@dataclass(frozen=True, slots=True)
class Card:
    """One card."""

    node: str
    device: DeviceId
    model: str
    slices: str
    """A character a slice: `.` nobody has it, a letter that of a holder; `?` of one whose place is not known."""
    holders: Mapping[str, str]
    """Claim by letter."""
    largest: str
    """The profile of the largest partition that fits and has no taint, or the type of the card where it is free as a whole; empty: nothing fits."""
    fragmentation: float | None
    """Share of the free slices that the largest partition that fits leaves; None: no slice is free."""
    tainted: bool
    """Whether it has a taint other than the guard, be it of a DeviceTaintRule."""


def cards(snapshot: Snapshot, holds: Holds, nodes: Collection[str] | None = None) -> Iterator[Card]:
    """Yield the cards by node and name; a card that several nodes could use has no node (empty). `nodes`: only those of these."""
    by_card: dict[DeviceId, list[Holder]] = {}
    for holder in holders(snapshot, holds, nodes):
        by_card.setdefault(holder.card, []).append(holder)
    whole = [
        (piece.availability.node or "", device)
        for piece in snapshot.slices.values()
        if nodes is None or (piece.availability.node or "") in nodes
        for device in piece.devices
        if snapshot.devices.card(device.id) == device.id
    ]
    for node, device in sorted(whole, key=lambda each: (each[0], each[1].id)):
        yield _card(snapshot, node, device, by_card.get(device.id, []))


def _card(snapshot: Snapshot, node: str, device: Device, held: list[Holder]) -> Card:
    parts = snapshot.devices.published_partitions(device.id)
    counter, count = _scale(device, parts)
    letters = dict(zip(dict.fromkeys(each.claim for each in held), _LETTERS, strict=False))
    slices = [FREE] * count
    # What a claim has and is held for another, too, is the claim's.
    for each in sorted((each for each in held if each.occupies), key=lambda each: each.is_hold):
        part = parts.get(each.device.name)
        for place in _places(part, counter, slices):
            if not each.is_hold or slices[place] == FREE:
                slices[place] = letters[each.claim]
    usable = _usable(snapshot, node, [device, *(part.device for part in parts.values())])
    sizes = {part.device.name: _size(part, counter) for part in parts.values()} | {device.name: count}
    fitting = [each for each in usable if each.name in sizes]
    best = max(fitting, key=lambda each: (sizes[each.name], each.name == device.name), default=None)
    offered = [each for each in fitting if not any(taint.blocks for taint in taints_of(snapshot, each))]
    largest = max(offered, key=lambda each: (sizes[each.name], each.name == device.name), default=None)
    free = slices.count(FREE)
    return Card(
        node,
        device.id,
        kind_of_device(device).model,
        "".join(slices),
        {letter: claim for claim, letter in letters.items()},
        kind_of_device(largest).name if largest is not None else "",
        None if not free else 1 - min(sizes[best.name], free) / free if best is not None else 1.0,
        bool(taints_of(snapshot, device)),
    )


def taints_of(snapshot: Snapshot, device: Device) -> tuple[Taint, ...]:
    """Return the taints of a device other than the guard, those of DeviceTaintRules included."""
    rules = (rule.taint for rule in snapshot.taint_rules.values() if rule.covers(device.id))
    return tuple(taint for taint in (*device.taints, *rules) if taint.key != GUARD)


def _scale(device: Device, parts: Mapping[str, PublishedPartition]) -> tuple[str, int]:
    """Return the counter whose units are the slices (empty: places of partitions are known), and how many there are."""
    ends = [part.start + part.size for part in parts.values() if part.start is not None and part.size]
    if ends:
        return "", min(max(ends), MOST_SLICES)
    units = [
        (amount.nano // NANO, name)
        for need in device.consumes
        for name, amount in need.counters
        if parts and amount.nano % NANO == 0 and 1 < amount.nano // NANO <= MOST_SLICES
    ]
    count, name = max(units, default=(1, ""))
    return name, count


def _size(part: PublishedPartition, counter: str) -> int:
    if part.size:
        return part.size
    amount = part.counters.get(counter)
    return amount.nano // NANO if amount is not None else 1


def _places(part: PublishedPartition | None, counter: str, slices: list[str]) -> list[int]:
    """Return the slices of a held device: those of its place, else the first free ones; of the whole card all."""
    if part is None:
        return [*range(len(slices))]
    if part.start is not None and part.size:
        return [place for place in range(part.start, part.start + part.size) if place < len(slices)]
    free = [index for index, letter in enumerate(slices) if letter == FREE]
    return free[: _size(part, counter)]


def _usable(snapshot: Snapshot, node: str, devices: list[Device]) -> list[Device]:
    """Return which of these devices could be given out now."""
    if snapshot.node(node) is None:
        return []
    view = snapshot.state.view(node)
    open_to_all = view.open & ~view.charged & view.base
    found = []
    for device in devices:
        index = view.find(device.id)
        if index is not None and open_to_all >> index & 1:
            found.append(device)
    return found
