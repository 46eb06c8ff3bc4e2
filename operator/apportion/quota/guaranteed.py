"""GuaranteedPart: which part of a quota's use its guarantees cover, pods of higher priority first.

In: the use of a quota, claim by claim, with the priorities of their pods. Out: how much may go so that the part that is guaranteed
stays as large, and of pods of the same priorities; what a claim counts of that; whether one more would raise that part.

Of each resource the guarantee covers the use from the highest priority on. At the priority where it is full, only what is beyond it
may go; above nothing may, below everything.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from apportion.quota.use import Amounts, QuotaUse


class GuaranteedPart:
    """That of one quota."""

    def __init__(self, use: QuotaUse, rows: Iterable[tuple[int, Amounts]]) -> None:
        """`rows`: priority and amounts of each claim that stays."""
        self._use = use
        self._used: list[Counter[int]] = [Counter() for _ in use.resources]
        """Of each resource, by priority."""
        for priority, amounts in rows:
            for used, amount in zip(self._used, amounts, strict=True):
                if amount:
                    used[priority] += amount
        self._full = [
            _full(used, one.guaranteed) for used, one in zip(self._used, use.resources, strict=True)
        ]

    def allowance(self) -> dict[str, int]:
        """Return how much may go, by keys of `counted`."""
        found: dict[str, int] = {}
        for index, (_, beyond) in enumerate(self._full):
            found |= {self._key(index): beyond, self._key(index, guaranteed=True): 0}
        return found

    def counted(self, priority: int, amounts: Amounts) -> dict[str, int]:
        """Return what goes of the allowance with a claim of pods of this priority."""
        found: dict[str, int] = {}
        for index, amount in enumerate(amounts):
            full = self._full[index][0]
            if amount and (full is None or priority >= full):
                found[self._key(index, guaranteed=full is None or priority > full)] = amount
        return found

    def rises(self, priority: int, asked: Amounts) -> bool:
        """Say whether a demand of this priority would make the guaranteed part larger, or of pods of higher priority."""
        return any(
            more and sum(amount for at, amount in used.items() if at >= priority) < one.guaranteed
            for more, used, one in zip(asked, self._used, self._use.resources, strict=True)
        )

    def _key(self, index: int, *, guaranteed: bool = False) -> str:
        return f"{self._use.name}/{self._use.resources[index].name}{'/guaranteed' if guaranteed else ''}"


def _full(used: Mapping[int, int], guaranteed: int) -> tuple[int | None, int]:
    """Return the priority at which more is used than is guaranteed, and how much more; None: nowhere."""
    total = 0
    for priority in sorted(used, reverse=True):
        total += used[priority]
        if total > guaranteed:
            return priority, total - guaranteed
    return None, 0
