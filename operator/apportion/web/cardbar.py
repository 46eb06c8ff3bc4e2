"""A card as a bar of its slices, and the same in words.

In: a card of the map, who holds parts of it, the partitions that exist on it. Out: slots to draw, and a text alternative.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from apportion.api.partition import Partition
from apportion.cli.answers.cards import FREE, UNKNOWN, Card, taints_of
from apportion.cli.answers.holders import Holder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device

COLOURS = 8
"""Colours of holders in the style sheet; the ninth holder of a card has the colour of the first."""


class SlotState(StrEnum):
    """What a slice is."""

    FREE = "free"
    CUT = "cut"
    """A partition exists there that nobody holds."""
    HELD = "held"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Slot:
    """One slice as it is drawn."""

    state: SlotState
    letter: str
    """Of the holder; empty: nobody."""
    colour: int
    """From 1 to COLOURS; 0: nobody."""
    begins: bool
    """Whether a partition, or another holder's part, begins here."""
    owner: str
    """The claim, or what else it is, in words."""


@dataclass(frozen=True, slots=True)
class HeldPart:
    """What one claim has of a card."""

    letter: str
    colour: int
    part: str
    """Profile of the partition, or name of the device."""
    holder: Holder


@dataclass(frozen=True, slots=True)
class CardRow:
    """A card of the map."""

    card: Card
    slots: tuple[Slot, ...]
    words: str
    """The bar in words."""
    held: tuple[HeldPart, ...]
    cut: tuple[str, ...]
    """Partitions that exist and that no claim holds, with their phase."""
    unhealthy: tuple[str, ...]
    """Taints other than the guard."""


def card_row(
    snapshot: Snapshot, card: Card, device: Device, held: Sequence[Holder], cut: Sequence[Partition]
) -> CardRow:
    """Return how a card is drawn; `cut`: the Partitions of it."""
    letters = {claim: letter for letter, claim in card.holders.items()}
    colours = {letter: index % COLOURS + 1 for index, letter in enumerate(card.holders)}
    parts = snapshot.devices.published_partitions(card.device)
    unheld = [each for each in cut if each.spec.holder is None or each.spec.holder.kind != "ResourceClaim"]
    starts = {parts[each.device.name].start for each in held if each.occupies and each.device.name in parts}
    places: dict[int, str] = {}
    for each in unheld:
        if each.spec.placement is not None:
            starts.add(each.spec.placement.start)
            end = each.spec.placement.start + each.spec.placement.size
            places |= dict.fromkeys(range(each.spec.placement.start, end), each.spec.profile)
    slots = tuple(_slots(card, colours, starts, places))
    return CardRow(
        card,
        slots,
        _words(slots),
        tuple(
            HeldPart(
                letters[each.claim],
                colours[letters[each.claim]],
                _part(each, parts[each.device.name].profile if each.device.name in parts else ""),
                each,
            )
            for each in held
        ),
        tuple(f"{each.spec.profile} ({each.status.phase})" for each in unheld),
        tuple(
            f"{taint.key}{f'={taint.value}' if taint.value else ''}: {taint.effect}"
            for taint in taints_of(snapshot, device)
        ),
    )


def _part(holder: Holder, profile: str) -> str:
    if profile:
        return profile
    return "whole card" if holder.device == holder.card and not holder.consumed else holder.device.name


def _slots(
    card: Card, colours: Mapping[str, int], starts: set[int | None], places: Mapping[int, str]
) -> Iterator[Slot]:
    before = ""
    for index, letter in enumerate(card.slices):
        begins = index == 0 or letter != before or index in starts
        before = letter
        if letter == UNKNOWN:
            yield Slot(SlotState.UNKNOWN, "", 0, begins, "unknown")
        elif letter != FREE:
            yield Slot(SlotState.HELD, letter, colours[letter], begins, f"{letter} {card.holders[letter]}")
        elif index in places:
            yield Slot(SlotState.CUT, "", 0, begins, f"cut as {places[index]}, held by nobody")
        else:
            yield Slot(SlotState.FREE, "", 0, begins, "free")


def _words(slots: Sequence[Slot]) -> str:
    if len(slots) == 1:
        return slots[0].owner
    found = []
    for owner, group in groupby(enumerate(slots), key=lambda each: each[1].owner):
        indexes = [index for index, _ in group]
        span = f"{indexes[0]}" if len(indexes) == 1 else f"{indexes[0]} to {indexes[-1]}"
        found.append(f"{span}: {owner}")
    return f"{len(slots)} slices; " + "; ".join(found)
