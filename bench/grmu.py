"""GRMU (Siavashi and Momtazpour, arXiv 2502.01909) as a baseline: requests for partitions are placed in two baskets of cards, and moved where that frees room.

In: an empty cluster, requests that come and end. Out: their places on the cluster's state, which of them were refused, and which were moved.

What is published of it at hand is its overview, not its procedure. From there: cards are divided into a basket for the largest profile and one for all others, each with a limit; a request that is
refused makes it defragment one card within itself; cards are merged so that one is free again. What the overview leaves open is decided here in its favour:

- *Place:* the first card of the basket that has one; on it the placement after which the most placements of all profiles are open, as NVIDIA's driver chooses. A basket takes a free card when it
  has no place, up to its limit, and gives a card back that is empty.
- *Defragmentation:* where a smaller profile is refused, the claims of one card are laid out anew on an empty one, the largest first: of the cards on which the request fits then, the one with the fewest moves. All
  move at once, so two may change places, which no move under DRA can do. Then the request is tried again.
- *Consolidation:* whenever `consolidate` is called, of two cards with one claim of half a card each the claim of the second moves to the first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from apportion.allocator.bits import bits
from apportion.allocator.node.counters import GroupOccupancy
from bench.defragbaselines import Card, Cluster


@dataclass(slots=True)
class Basket:
    """Cards for some profiles."""

    most: int
    """Cards that it may have."""
    cards: list[Card] = field(default_factory=list)


@dataclass(slots=True)
class Grmu:
    """The two baskets of a cluster, and what was done there."""

    cluster: Cluster
    heavy: float
    """The share of the cards that the basket of the largest profile may have, the other one having the rest; 1: there is one basket of all cards."""
    moves: bool = True
    """Whether who is refused makes it defragment."""
    moved: set[str] = field(default_factory=set)
    """The claims that were moved, each counted once."""
    _pool: list[Card] = field(init=False)
    """Cards that neither basket has, the first at the end."""
    _large: Basket = field(init=False)
    _small: Basket = field(init=False)
    _on: dict[Card, dict[str, int]] = field(default_factory=dict)
    """The claims of each card, with the positions of their devices."""

    def __post_init__(self) -> None:
        """Divide the cards."""
        cards = self.cluster.cards
        self._pool = cards[::-1]
        most = round(self.heavy * len(cards))
        self._large = Basket(most)
        self._small = self._large if most == len(cards) else Basket(len(cards) - most)
        self._on = {card: {} for card in cards}

    def place(self, key: str, kind: int) -> bool:
        """Place a request for a profile (`Cluster.kind` of its devices); says whether it has a place."""
        basket = self._large if self._size(kind) == self.cluster.layout.whole.bit_count() else self._small
        if self._put(basket, key, kind):
            return True
        if not self.moves or basket is not self._small or not self._defragment(kind):
            return False
        return self._put(basket, key, kind)

    def end(self, key: str) -> None:
        """Let a request end."""
        card, _ = self.cluster.at(self.cluster.claims[key])
        del self._on[card][key]
        self.cluster.drop(key)
        self._give_back(card)

    def consolidate(self) -> None:
        """Merge cards that have one claim of half a card each."""
        half = self.cluster.layout.whole.bit_count() // 2
        alone = [
            card
            for card in self._small.cards
            for local in [*self._on[card].values()]
            if len(self._on[card]) == 1 and self._size(local) == half
        ]
        while alone:
            card = alone.pop()
            [(key, local)] = self._on[card].items()
            for other in alone:
                to = self._best(other, self.cluster.kind(local))
                if to is not None:
                    alone.remove(other)
                    del self._on[card][key]
                    self._move(key, other, to)
                    self._give_back(card)
                    break

    def _put(self, basket: Basket, key: str, kind: int) -> bool:
        for card in basket.cards:
            local = self._best(card, kind)
            if local is not None:
                self._take(key, card, local)
                return True
        if len(basket.cards) == basket.most or not self._pool:
            return False
        card = self._pool.pop()
        basket.cards.append(card)
        local = self._best(card, kind)
        if local is None:
            return False
        self._take(key, card, local)
        return True

    def _best(self, card: Card, kind: int) -> int | None:
        """Return the open placement of a profile that leaves the most open."""
        return _best(self.cluster, self.cluster.group(card).occupancy, kind)

    def _defragment(self, kind: int) -> bool:
        """Lay out one card anew so that a profile fits; says whether there is such a card."""
        found = [
            (len(moves), card, moves)
            for card in self._small.cards
            if (moves := self._laid_out(card, kind)) is not None
        ]
        if not found:
            return False
        _, card, moves = min(found, key=lambda row: row[:2])
        for key in moves:
            self.cluster.drop(key)
        for key, local in moves.items():
            self._move(key, card, local)
        return True

    def _laid_out(self, card: Card, kind: int) -> dict[str, int] | None:
        """Return who has to move so that a profile fits, and where to; None: it does not fit however they are laid out."""
        claims = self._on[card]
        left = self.cluster.layout.whole.bit_count() - sum(self._size(local) for local in claims.values())
        if left < self._size(kind):
            return None
        group = self.cluster.group(card)
        occupancy = group.group_type.occupancy(group.fresh, 0)
        places: dict[int, list[int]] = {}
        """The new placements of each profile."""
        for each in sorted(
            map(self.cluster.kind, claims.values()), key=lambda each: (-self._size(each), each)
        ):
            local = _best(self.cluster, occupancy, each)
            if local is None:
                return None
            occupancy = occupancy.take(local)
            places.setdefault(each, []).append(local)
        if _best(self.cluster, occupancy, kind) is None:
            return None
        # Claims of one profile are alike: who has one of its new placements stays.
        going = [
            key for key, local in claims.items() if not _take_out(places[self.cluster.kind(local)], local)
        ]
        return {key: places[self.cluster.kind(claims[key])].pop() for key in going}

    def _take(self, key: str, card: Card, local: int) -> None:
        self.cluster.put(key, self.cluster.device(card, local))
        self._on[card][key] = local

    def _move(self, key: str, card: Card, local: int) -> None:
        self._take(key, card, local)
        self.moved.add(key)

    def _give_back(self, card: Card) -> None:
        """Take an empty card out of its basket."""
        if not self._on[card]:
            for basket in (self._large, self._small):
                if card in basket.cards:
                    basket.cards.remove(card)
                    self._pool.append(card)

    def _size(self, local: int) -> int:
        return self.cluster.layout.masks[local].bit_count()


def _best(cluster: Cluster, occupancy: GroupOccupancy, kind: int) -> int | None:
    places: Iterator[int] = (local for local in bits(occupancy.open) if cluster.kind(local) == kind)
    return max(places, key=lambda local: (occupancy.take(local).room, -local), default=None)


def _take_out(places: list[int], local: int) -> bool:
    if local in places:
        places.remove(local)
        return True
    return False
