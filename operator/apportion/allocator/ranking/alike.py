"""What nodes answer of which a claim sees the same: a bounded memory, by what is seen."""

from apportion.allocator.search.outcome import Outcome


class Alike:
    """Outcomes of one shape under one strategy, by what its claims can see of a node."""

    __slots__ = ("_kept", "_most")

    def __init__(self, most: int) -> None:
        """`most`: sights whose answers are kept."""
        self._most = most
        self._kept: dict[object, Outcome] = {}

    def recall(self, sight: object) -> Outcome | None:
        """Return what was answered where the same was seen."""
        return self._kept.get(sight)

    def note(self, sight: object, outcome: Outcome) -> None:
        """Remember an answer."""
        if len(self._kept) >= self._most:
            self._kept.clear()
        self._kept[sight] = outcome
