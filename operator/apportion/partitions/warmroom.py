"""WarmRoom: the cards that may have room for partitions that are to be kept warm.

In: cards of which something changed, the profiles that are missing. Out: for each of these the first card that may have room. A card
that had none is not looked at again before it changes: in a full cluster all cards were, whenever one changed.
"""

from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush

from apportion.dra.device import DeviceId


class WarmRoom:
    """Cards by profile."""

    def __init__(self) -> None:
        self._ordered: dict[str, list[DeviceId]] = {}
        """A heap for each profile that was missing once."""
        self._known: dict[str, set[DeviceId]] = {}
        """The cards of each heap."""

    def forget(self) -> None:
        """Look at all cards again."""
        self._ordered.clear()
        self._known.clear()

    def put(self, changed: Iterable[DeviceId]) -> None:
        """Have these cards looked at again."""
        for card in changed:
            for profile, known in self._known.items():
                if card not in known:
                    known.add(card)
                    heappush(self._ordered[profile], card)

    def look_for(self, missing: Collection[str], cards: Callable[[], Iterable[DeviceId]]) -> None:
        """Have all cards (`cards` returns them) looked at for profiles that were never missing before."""
        for profile in missing:
            if profile not in self._known:
                self._known[profile] = {*cards()}
                self._ordered[profile] = [*self._known[profile]]
                heapify(self._ordered[profile])

    def first(self, profile: str) -> DeviceId | None:
        """Return the first card that may have room for a partition of this profile; None: there is none."""
        cards = self._ordered.get(profile)
        return cards[0] if cards else None

    def drop(self, profile: str) -> None:
        """Note that the first card has no room left."""
        self._known[profile].remove(heappop(self._ordered[profile]))
