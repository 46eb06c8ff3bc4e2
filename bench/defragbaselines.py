"""Two published ideas of defragmentation, as baselines: their metric, or their heuristic, moves claims for one device each.

In: a state, the claims that may move, a number of moves. Out: the moves, on the state. As the planner's, a move needs a place that is free while the old one is taken. Both
are written from what is published of them, on the memory slices of a card; neither decides about moves under DRA as its authors would.

- `by_metric` (Zambianco and others, arXiv 2511.18906): the fragmentation of a card is the sum, over the profiles not larger than what is free of it, of the sizes of their
  placements that something blocks. There it chooses places for what comes; here each move is the one that lowers the sum over all cards the most, until none does.
- `by_vacating` (IBM's WPM, arXiv 2409.06646): the card of which the least is used is vacated, its claims going, largest first, to the fullest cards that have a place; then the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.node.countergroup import CounterGroup
from apportion.allocator.node.counters import GroupOccupancy
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId

_SLICE = "memory-slice-"


class Card(NamedTuple):
    """A card: a node and a counter group of it."""

    node: str
    group: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What all cards have: the memory slices and the kind of each device of a group."""

    masks: tuple[int, ...]
    """Memory slices by device, by position in the group."""
    whole: int
    """All memory slices."""

    @classmethod
    def of(cls, group: CounterGroup) -> "Layout":
        """Read the names of the counters."""
        slices = {
            number: 1 << int(name.removeprefix(_SLICE))
            for number, (_, name) in enumerate(group.counters)
            if name.startswith(_SLICE)
        }
        masks = tuple(
            sum(slices.get(counter, 0) for counter, amount in need if amount)
            for need in group.group_type.needs
        )
        return cls(masks, sum(slices.values()))

    @cache  # noqa: B019 - there is one layout
    def fragmentation(self, occupied: int) -> int:
        """Return the metric of a card with these memory slices taken."""
        free = (self.whole & ~occupied).bit_count()
        return sum(
            size
            for mask in self.masks
            if (size := mask.bit_count()) <= free and mask != self.whole and mask & occupied
        )


@dataclass(slots=True)
class Cluster:
    """The cards of a state, and the claims on them."""

    state: State
    claims: dict[str, DeviceId]
    """The device of each claim, by its key in the state."""
    moves: int = 0
    layout: Layout = field(init=False)
    cards: list[Card] = field(init=False)
    _kinds: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Find the cards."""
        self.cards = [
            Card(name, number)
            for name in sorted(self.state.names())
            for number in range(len(self.state.view(name).groups))
        ]
        group, view = self.group(self.cards[0]), self.state.view(self.cards[0].node)
        self.layout = Layout.of(group)
        first: dict[str, int] = {}
        names = [view.devices[member].name.rpartition("-")[0] for member in group.members]
        self._kinds = tuple(first.setdefault(name, at) for at, name in enumerate(names))

    def group(self, card: Card) -> CounterGroup:
        """Return the counter group of a card."""
        return self.state.view(card.node).groups[card.group]

    def at(self, device: DeviceId) -> tuple[Card, int]:
        """Return the card of a device, and its position there."""
        [node] = self.state.nodes_of(device)
        view = self.state.view(node)
        index = view.find(device)
        if index is None:
            raise KeyError(device)
        group, local = view.group_of[index]
        return Card(node, group), local

    def kind(self, local: int) -> int:
        """Return the profile of a device, by the position of its first placement."""
        return self._kinds[local]

    def device(self, card: Card, local: int) -> DeviceId:
        """Return a device of a card."""
        view = self.state.view(card.node)
        return view.id_of(view.groups[card.group].members[local])

    def occupied(self, occupancy: GroupOccupancy) -> int:
        """Return the memory slices that are taken."""
        return sum({self.layout.masks[local] for local in bits(occupancy.busy)})

    def by_card(self) -> dict[Card, list[tuple[int, str]]]:
        """Return the claims of each card, with the position of their devices."""
        found: dict[Card, list[tuple[int, str]]] = {card: [] for card in self.cards}
        for key, device in self.claims.items():
            card, local = self.at(device)
            found[card].append((local, key))
        return found

    def free(self) -> int:
        """Return how many cards are free."""
        return sum(not self.group(card).occupancy.busy for card in self.cards)

    def move(self, key: str, card: Card, local: int) -> None:
        """Move a claim to a device of a card."""
        self.put(key, self.device(card, local))
        self.moves += 1

    def put(self, key: str, device: DeviceId) -> None:
        """Let a claim have a device."""
        self.claims[key] = device
        self.state.hold(key, (DeviceResult("r", device),))

    def drop(self, key: str) -> None:
        """Let a claim have nothing."""
        del self.claims[key]
        self.state.release(key)


def by_metric(cluster: Cluster, most: int) -> None:
    """Move, one at a time, what lowers the fragmentation of all cards the most."""
    while cluster.moves < most:
        best = min(_changes(cluster), default=None)
        if best is None or best[0] >= 0:
            return
        _, key, card, local = best
        cluster.move(key, card, local)


def _changes(cluster: Cluster) -> Iterator[tuple[int, str, Card, int]]:
    """Yield the best move of each kind: by what changes, claims in the same place of equal cards being one."""
    layout = cluster.layout
    alike: dict[GroupOccupancy, list[Card]] = {}
    for card in cluster.cards:
        alike.setdefault(cluster.group(card).occupancy, []).append(card)
    coming: dict[int, list[tuple[int, int, GroupOccupancy]]] = {}
    """By size: the change by taking a place, the place, the cards."""
    for occupancy in alike:
        occupied = cluster.occupied(occupancy)
        before = layout.fragmentation(occupied)
        for local in bits(occupancy.open):
            mask = layout.masks[local]
            rise = layout.fragmentation(occupied | mask) - before
            coming.setdefault(cluster.kind(local), []).append((rise, local, occupancy))
    for rows in coming.values():
        rows.sort(key=lambda row: row[:2])
    seen: set[tuple[GroupOccupancy, int]] = set()
    for card, claims in cluster.by_card().items():
        occupancy = cluster.group(card).occupancy
        occupied = cluster.occupied(occupancy)
        for local, key in claims:
            if (occupancy, local) in seen:
                continue
            seen.add((occupancy, local))
            mask = layout.masks[local]
            fall = layout.fragmentation(occupied & ~mask) - layout.fragmentation(occupied)
            for rise, to, there in coming.get(cluster.kind(local), ()):
                others = [other for other in alike[there] if other != card]
                if others:
                    yield fall + rise, key, others[0], to
                    break


def by_vacating(cluster: Cluster, most: int) -> None:
    """Vacate the cards of which the least is used."""
    given_up: set[Card] = set()
    received: set[Card] = set()
    while cluster.moves < most:
        by_card = cluster.by_card()
        used = {
            card: cluster.occupied(cluster.group(card).occupancy).bit_count()
            for card, claims in by_card.items()
            if claims
        }
        rest = [card for card in used if card not in given_up and card not in received]
        if not rest:
            return
        card = min(rest, key=lambda each: (used[each], each))
        given_up.add(card)
        claims = sorted(by_card[card], key=lambda row: -cluster.layout.masks[row[0]].bit_count())
        if cluster.moves + len(claims) > most or len(claims) < cluster.group(card).occupancy.busy.bit_count():
            continue
        received.update(_vacate(cluster, claims, [each for each in used if each != card]))


def _vacate(cluster: Cluster, claims: Sequence[tuple[int, str]], others: Sequence[Card]) -> list[Card]:
    """Move all claims to other cards in use, the fullest first; or none. Return where they went."""
    before, moves, went = dict(cluster.claims), cluster.moves, []
    for local, key in claims:
        kind = cluster.kind(local)
        fullest = sorted(
            others, key=lambda each: (-cluster.occupied(cluster.group(each).occupancy).bit_count(), each)
        )
        place = next(
            (
                (card, to)
                for card in fullest
                for to in bits(cluster.group(card).occupancy.open)
                if cluster.kind(to) == kind
            ),
            None,
        )
        if place is None:
            for _, other in claims:
                cluster.put(other, before[other])
            cluster.moves = moves
            return []
        cluster.move(key, *place)
        went.append(place[0])
    return went
