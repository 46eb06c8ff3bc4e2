"""Claimants: who waits for what is guaranteed to its quota, while another one of the cohort would borrow it.

In: what waits, the use of quotas. Out: whether somebody goes before a quota that would borrow. What asks alike in a namespace is
compared with a guarantee once, and what was answered is found out anew only after something changed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from apportion.cluster.snapshot import Snapshot
from apportion.quota.resource import Resource
from apportion.quota.use import QuotaUse
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.waiting import WaitingDemand

_MOST_AHEAD = 64
"""Of those that ask for different things, and behind which one stands back, how many are named."""
_Asked: TypeAlias = tuple[int, ...]
"""What a demand asks for: the identity of what each of its claims requests, which equal ones share."""


class _Row(NamedTuple):
    """Demands of one namespace that ask alike, and stay within the guarantee of their quota."""

    resources: Sequence[Resource]
    """In which they may count."""
    demands: Mapping[str, WaitingDemand]


class _Rows(NamedTuple):
    """All of a namespace, and by what they were found."""

    use: QuotaUse
    seen: tuple[int, int, bool]
    """The version of the use, how much had been learnt, whether some devices give shares."""
    rows: Sequence[_Row]


class Claimants:
    """Follows the demands that wait."""

    def __init__(self, snapshot: Snapshot, charging: Charging) -> None:
        self._snapshot = snapshot
        self._charging = charging
        self.is_hopeless: Callable[[str], bool] = lambda _: False
        """Says of a demand (key) that it gets nothing whatever becomes free: nobody has to stand back behind it."""
        self.look: Callable[[], Iterator[None]] = lambda: iter(())
        """Finds that out at the start of a pass; yields where others may run."""
        self.ahead: dict[str, WaitingDemand] = {}
        """Some of those behind which somebody stands back, by key, since it was emptied."""
        self._waiting: dict[str, dict[_Asked, dict[str, WaitingDemand]]] = {}
        """By namespace, by what they ask for, by key."""
        self._places: dict[str, tuple[str, _Asked]] = {}
        """By key: where a demand is."""
        self._rows: dict[str, _Rows] = {}
        """By namespace, as far as somebody asked since one of its demands came or went."""
        self._answers: dict[tuple[QuotaUse, tuple[Resource, ...]], bool] = {}
        """Whether somebody goes before a quota, by what it would borrow."""
        self._answered: tuple[int, int, bool] = (-1, -1, False)
        """By what they were answered: as of the rows, of all quotas."""

    def follow(self, gone: Iterable[str], came: Collection[WaitingDemand]) -> None:
        """Note the demands that went or changed (by key), and those that came or changed. Starts a pass."""
        self._answers.clear()
        for key in gone:
            self._remove(key)
        for demand in came:
            self._remove(demand.key)
            namespace = demand.claims[0].namespace
            asked = tuple(id(claim.slots) for claim in demand.claims)
            self._places[demand.key] = namespace, asked
            self._waiting.setdefault(namespace, {}).setdefault(asked, {})[demand.key] = demand
            self._rows.pop(namespace, None)

    def _remove(self, key: str) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        namespace, asked = place
        own = self._waiting[namespace]
        del own[asked][key]
        if not own[asked]:
            del own[asked]
        if not own:
            del self._waiting[namespace]
        self._rows.pop(namespace, None)

    def go_before(self, use: QuotaUse, borrowed: Sequence[Resource], *, shares: bool) -> bool:
        """Say whether a demand of another quota of the cohort waits for what is guaranteed to it, and may take what counts in these resources.

        `borrowed`: of which this quota would have more than is guaranteed to it. `shares`: some devices give shares.
        """
        seen = self._charging.usage.version, self._charging.learnt, shares
        if seen != self._answered:
            self._answered = seen
            self._answers.clear()
        key = use, tuple(borrowed)
        found = self._answers.get(key)
        if found is None:
            rows = (
                row
                for namespace in self._waiting
                for row in self._of(namespace, use, shares=shares)
                if any(mine.overlaps(other) for mine in row.resources for other in borrowed)
                and self._is_waiting(row.demands)
            )
            ahead = [row.demands for row in islice(rows, _MOST_AHEAD)]
            for demands in ahead:
                self.ahead |= demands
            found = self._answers[key] = bool(ahead)
        return found

    def _is_waiting(self, demands: Mapping[str, WaitingDemand]) -> bool:
        return any(
            self._snapshot.allocation(each.claims[0]) is None and not self.is_hopeless(key)
            for key, each in demands.items()
        )

    def _of(self, namespace: str, use: QuotaUse, *, shares: bool) -> Sequence[_Row]:
        """Return the rows of a namespace, none if it is not of another quota of the cohort."""
        other = self._charging.usage.of(namespace)
        if other is None or other is use or other.quota.spec.cohort != use.quota.spec.cohort:
            return ()
        seen = other.version, self._charging.learnt, shares
        known = self._rows.get(namespace)
        if known is None or known.use is not other or known.seen != seen:
            rows = []
            for demands in self._waiting[namespace].values():
                first = next(iter(demands.values()))
                asked = self._charging.expected(first.claims, other, shares=shares)
                resources = other.takeable(asked)
                if resources:
                    rows.append(_Row(resources, demands))
            known = self._rows[namespace] = _Rows(other, seen, rows)
        return known.rows
