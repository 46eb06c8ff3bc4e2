"""Whether a claim's devices can be had beside those that other claims have prepared. Pure.

In: journal rows, the node's cards. Out: nothing, or NotReady naming the holders. The last line of defence: allocations are of claims that
fit, but some are made by hand or by others, and what a claim has lost is in use until it is unprepared.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.agent.devices.values import Card, CardKind
from apportion.agent.rows import ClaimDevice, ClaimRow
from apportion.agent.slices.naming import card_of
from apportion.agent.slices.shares import PERCENT, shareable_memory
from apportion.errors import NotReady


def check_fit(row: ClaimRow, others: Sequence[ClaimRow], cards: Mapping[str, Card]) -> None:
    """Raise NotReady where a card's parts and the whole would be in use at once, or more of a card than it has."""
    kin = _kin(cards, others)
    for other in others:
        for mine in row.devices:
            for theirs in other.devices:
                near = theirs.card in kin[mine.card] or _is_same(mine, theirs)
                if near and not (mine.admin or theirs.admin):
                    raise other.holds(theirs.device, mine.device)
    for of, amount in _takes(row, cards).items():
        holders = [(other.key, part) for other in others if (part := _takes(other, cards)[of])]
        taken = sum(part for _, part in holders)
        if amount + taken > of.total:
            whose = ", ".join(f"ResourceClaim {key}" for key, _ in holders)
            raise NotReady(
                f"device {of.card} has {of.total} {of.what} to share, of which {taken} are prepared for"
                f" {whose or 'nobody'}; {amount} more do not fit"
            )


class Oversubscription(NamedTuple):
    """A card that more claims would share than its node allows, and those that have it."""

    card: str
    most: int
    holders: tuple[ClaimRow, ...]


def oversubscribed(
    row: ClaimRow, others: Sequence[ClaimRow], most: int, asked: Collection[str] = ()
) -> Oversubscription | None:
    """Return the first card of which the claim and the others have more than `most` shares, None when there is none.

    A card is passed over of whose holders each was `asked` about (UIDs): none of them has lost its share.
    """
    for card, mine in _shares(row).items():
        holders = tuple(other for other in others if _shares(other)[card])
        over = mine + sum(_shares(holder)[card] for holder in holders) > most
        if over and not all(holder.uid in asked for holder in holders):
            return Oversubscription(card, most, holders)
    return None


def _shares(row: ClaimRow) -> Counter[str]:
    """Return how many shares of each card a claim has."""
    return Counter(device.card for device in row.devices if device.share is not None and not device.admin)


class _Amount(NamedTuple):
    """Something of a card that several claims take."""

    card: str
    what: str
    total: int


def _takes(row: ClaimRow, cards: Mapping[str, Card]) -> Counter[_Amount]:
    """Return what a claim takes of cards that serve several claims.

    What a part took that is not there any more is not known; nobody gets its card as a whole.
    """
    found: Counter[_Amount] = Counter()
    for device in row.devices:
        card = cards.get(device.card)
        if card is None or device.admin:
            continue
        if device.share is not None:
            found[_Amount(card.name, "bytes of memory", shareable_memory(card))] += device.share.memory
            found[_Amount(card.name, "percent of cores", PERCENT)] += device.share.cores
        elif card.part_of in cards:
            totals = cards[card.part_of].totals
            for name, amount in card.takes.items():
                found[_Amount(card.part_of, name, totals.get(name, 0))] += amount
    return found


def _is_same(mine: ClaimDevice, theirs: ClaimDevice) -> bool:
    """Say whether devices of two names lie on one card, by its UUID: kernel and slot may give a card another name in the course of time.

    A generic device without a serial number has its bus id for a UUID, and its name after that once another one has come to its PCI device.
    """
    one, other = mine.card_uuid, theirs.card_uuid
    if mine.card == theirs.card or not one or not other:
        return False
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _kin(cards: Mapping[str, Card], rows: Iterable[ClaimRow]) -> Mapping[str, set[str]]:
    """Return by card the others that nobody may have at the same time: a NIC's virtual functions, and their NIC.

    A generic card has the parts beside that claims still have and that are not there any more.
    """
    parts = {card.name: card.part_of for card in cards.values() if card.part_of}
    for name in {device.card for row in rows for device in row.devices} - cards.keys():
        card = card_of(name, dict(cards))
        if card is not None and card.kind not in (*CardKind,):
            parts[name] = card.name
    found: dict[str, set[str]] = defaultdict(set)
    for part, whole in parts.items():
        found[part].add(whole)
        found[whole].add(part)
    return found
