"""compose(): what a node should publish, from what is there and who has it. Pure.

In: cards, live partitions, rows of the journal, health. Out: an inventory. Three kinds of partitions are on a card: ours for claims (not
subtracted: allocations count them, and warm ones make way), ours for layouts, and foreign ones (both subtracted).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from apportion.agent.devices.values import Card, CardKind, Health, LivePartition, PartitionPlace
from apportion.agent.rows import ClaimRow, PartitionRow, Step
from apportion.agent.slices.naming import partition_device, partition_devices
from apportion.agent.slices.nodeinventory import (
    FOREIGN,
    MOST_HELD,
    PARTS_ONLY,
    REFUSED,
    SHARED,
    SICK,
    NodeInventory,
    SharedCard,
    StaticPartition,
    all_devices,
    held_for,
    is_uid,
    off_fabric,
)
from apportion.agent.slices.shares import Held, PublishedSharing, has_room, why_not_shared
from apportion.api.policy import SharingStrategy
from apportion.dra.taint import Taint


def compose(
    cards: tuple[Card, ...],
    live: tuple[LivePartition, ...],
    rows: dict[str, PartitionRow],
    held: tuple[ClaimRow, ...],
    health: Mapping[str, Health],
    refused: frozenset[str] = frozenset(),
    *,
    left: frozenset[str] = frozenset(),
    stuck: Collection[str] = (),
    marked: frozenset[str] = frozenset(),
    fabric: Mapping[str, str] = MappingProxyType({}),
    failing: Collection[str] = (),
    sharing: PublishedSharing | None = None,
    strategies: Mapping[str, SharingStrategy] = MappingProxyType({}),
    quarantine: bool = False,
) -> NodeInventory:
    """Put the inventory together.

    `rows` are partitions by the UID of their Partition, `held` claims that hold devices, `left` partitions (UIDs) that are in use and have no owner,
    `stuck` those that are to go and that the driver does not remove, `refused` devices that the driver refuses, `marked` UUIDs
    with sticky errors. `fabric` says why cards have not joined theirs; `failing` are devices whose programs miss what was set up for them;
    `sharing`: how the node shares its GPUs, None: it does not; `strategies` are those of the shares that are in use, by card. `quarantine`: a
    card with a foreign partition is tainted as a whole.
    """
    by_name = {card.name: card for card in cards}
    ours = {row.place: row for row in rows.values()}
    occupied: list[PartitionPlace] = []
    undescribed: set[str] = set()
    """Cards with a partition that no profile describes, so that what is left of them is unknown."""
    static: list[StaticPartition] = []
    foreign: set[str] = set()
    for found in live:
        card = by_name.get(found.card)
        row = ours.get(found.place)
        if card is None:
            continue
        described = card.profile(found.profile) is not None
        if not described:
            undescribed.add(card.name)
        if row is not None and row.is_at(found):
            if row.layout:
                occupied.append(found.place)
                if row.step is Step.READY and found.complete:
                    static.append(_static(row, card))
            continue
        foreign.add(card.name)
        if described:
            occupied.append(found.place)
    # What a reboot or a reset took is made anew: as long as it is not there, no allocation and no hold of the operator keeps its place.
    taken = [row.place for row in rows.values() if _comes_back(row, by_name.get(row.place.card), live)]
    occupied += taken
    layouts = {made.card for made in static} | {place.card for place in taken}
    shared, not_shared = _shared(cards, sharing, foreign, layouts, held, strategies)
    holders = _holders(held, _roomy(cards, shared))
    blocked = set(undescribed)
    for used in (device for claim in held for device in claim.devices):
        if used.device == used.card:
            if not used.admin and (used.share is None or used.card not in shared):
                blocked.add(used.card)
        elif not used.admin:
            left |= {used.partition}
    stays = {uid: row for uid, row in rows.items() if _lies_on(row, by_name.get(row.place.card))}
    # No allocation counts them; a layout's are counted above.
    occupied += [row.place for uid, row in stays.items() if uid in {*left, *stuck} and not row.layout]
    # A card that is not well has its own taint on all its devices.
    sick = {
        row.device
        for row in rows.values()
        if row.uuid in marked and health.get(row.place.card, Health.HEALTHY) is Health.HEALTHY
    }
    sick |= set(failing)
    return NodeInventory(
        cards=cards,
        health=health,
        occupied=tuple(sorted(occupied, key=lambda place: (place.card, place.placement, place.profile))),
        blocked=frozenset(blocked),
        static=tuple(sorted(static, key=lambda made: made.device)),
        taints=_taints(
            cards,
            foreign if quarantine else set(),
            static,
            holders,
            refused,
            sick,
            fabric,
            shared,
            undescribed,
            [row.device for uid, row in stays.items() if uid in stuck],
        ),
        untainted={
            name: claims
            for name, found in holders.items()
            if (claims := tuple(claim for claim, _ in found[MOST_HELD:] if is_uid(claim)))
        },
        shared=shared,
        not_shared=not_shared,
    )


def _comes_back(row: PartitionRow, card: Card | None, live: tuple[LivePartition, ...]) -> bool:
    """Say whether a row is of a layout's partition of this card that is not there and is wanted."""
    if not row.layout or row.step is Step.RELEASING or not _lies_on(row, card):
        return False
    return all(found.place != row.place for found in live)


def _lies_on(row: PartitionRow, card: Card | None) -> bool:
    """Say whether a row is of a partition of this card, not of a former one of its name."""
    return card is not None and row.card_uuid in {"", card.uuid}


def _shared(
    cards: tuple[Card, ...],
    sharing: PublishedSharing | None,
    foreign: set[str],
    layouts: set[str],
    held: tuple[ClaimRow, ...],
    strategies: Mapping[str, SharingStrategy],
) -> tuple[dict[str, SharedCard], dict[str, str]]:
    """Return the cards that serve several claims, and why others do not; a strategy changes when the last share of the former has gone."""
    shared: dict[str, SharedCard] = {}
    why: dict[str, str] = {}
    for card in cards if sharing is not None else ():
        if card.kind != CardKind.GPU or sharing is None:
            continue
        by_hand = "ForeignPartition" if card.name in foreign else ""
        reason = why_not_shared(card, sharing) or ("Layout" if card.name in layouts else by_hand)
        if reason:
            why[card.name] = reason
            continue
        shares = [
            device.share
            for claim in held
            for device in claim.devices
            if device.device == card.name and device.share is not None and not device.admin
        ]
        memory, cores = sum(share.memory for share in shares), sum(share.cores for share in shares)
        own = replace(sharing, strategy=strategies.get(card.name, sharing.strategy))
        shared[card.name] = SharedCard(own, Held(len(shares), memory, cores))
    return shared, why


def _taints(
    cards: tuple[Card, ...],
    quarantined: set[str],
    static: list[StaticPartition],
    holders: Mapping[str, list[tuple[str, bool]]],
    refused: frozenset[str],
    sick: set[str],
    fabric: Mapping[str, str],
    shared: Mapping[str, SharedCard],
    undescribed: Collection[str],
    stuck: Iterable[str],
) -> dict[str, tuple[Taint, ...]]:
    """Return what keeps claims off devices, by their names."""
    taints: dict[str, tuple[Taint, ...]] = defaultdict(tuple, dict.fromkeys(sorted(refused), (REFUSED,)))
    for device in sorted(sick):
        taints[device] = (*taints[device], SICK)
    for card in cards:
        if card.name in fabric:
            taints[card.name] = (*taints[card.name], off_fabric(fabric[card.name]))
        # A card without counters cannot be blocked by them.
        if card.parts_only or (card.name in undescribed and not card.totals):
            taints[card.name] = (*taints[card.name], PARTS_ONLY)
    for card in (card for card in cards if card.name in quarantined):
        for device in all_devices(card, static):
            taints[device] = (*taints[device], FOREIGN)
    for card in (card for card in cards if card.name in shared):
        for part in partition_devices(card):
            taints[part.name] = (*taints[part.name], SHARED)
    for device in stuck:
        # A vNPU's copies have no place of their own: the others are free, and this one has the name of the object.
        taints[device] = (*taints[device], held_for(""))
    for device, found in holders.items():
        holding = (held_for(claim, blocks=blocks) for claim, blocks in found[:MOST_HELD])
        taints[device] = (*taints[device], *holding)
    return dict(taints)


def _roomy(cards: tuple[Card, ...], shared: Mapping[str, SharedCard]) -> set[str]:
    """Return the shared cards of which a further claim could get something."""
    return {
        card.name
        for card in cards
        if card.name in shared and has_room(card, shared[card.name].sharing, shared[card.name].held)
    }


def _holders(held: tuple[ClaimRow, ...], roomy: Collection[str]) -> dict[str, list[tuple[str, bool]]]:
    """Return the claims (UIDs) that hold a device, by its name, and whether each blocks it; those that do come first.

    A share blocks no other on `roomy` cards, and what looks at a device with admin access blocks nobody.
    """
    found: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for claim in held:
        blocking: dict[str, bool] = defaultdict(bool)
        for device in claim.devices:
            beside = device.admin or (device.share is not None and device.device in roomy)
            blocking[device.device] |= not beside
        for name, blocks in blocking.items():
            found[name].append((claim.uid, blocks))
    return {name: sorted(claims, key=lambda claim: not claim[1]) for name, claims in found.items()}


def _static(row: PartitionRow, card: Card) -> StaticPartition:
    part = partition_device(card, row.device)
    return StaticPartition(
        device=row.device,
        card=card.name,
        profile=row.place.profile,
        placement=part.placement if part is not None else None,
        uuid=row.uuid,
        layout=row.layout,
    )
