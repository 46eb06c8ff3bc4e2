"""Claimants: who waits for what is guaranteed to its quota, while another one of the cohort would borrow it.

In: what waits, the use of quotas. Out: whether somebody goes before a quota that would borrow. A group counts as a whole, and not before enough of its pods are there.
What takes as much of a quota is compared with its guarantee once, and what was answered is found out anew only after something changed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from apportion.cluster.snapshot import Snapshot
from apportion.quota.resource import Resource
from apportion.quota.use import QuotaUse
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.quota.waitingamounts import Asked, Demands, WaitingAmounts

_MOST_AHEAD = 64
"""Of those that ask for different things, and behind which one stands back, how many are named."""


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
        self._waiting: dict[str, WaitingAmounts] = {}
        """By namespace."""
        self._places: dict[str, tuple[str, Asked]] = {}
        """By key: where a demand or group is."""
        self._groups: dict[str, WaitingGroup] = {}
        """Groups by name (`namespace/name`), as they were last seen."""
        self._answers: dict[tuple[QuotaUse, tuple[Resource, ...]], bool] = {}
        """Whether somebody goes before a quota, by what it would borrow."""
        self._answered: tuple[int, int, bool] = (-1, -1, False)
        """By what they were answered: as of the use of all quotas."""

    def follow(self, gone: Iterable[str], came: Collection[WaitingDemand]) -> Iterator[None]:
        """Note the demands that went or changed (by key), and those that came or changed; yields where others may run. Starts a pass."""
        self._answers.clear()
        pace = Pace()
        for key in gone:
            if pace.rests():
                yield
            self._remove(key)
        for demand in came:
            if pace.rests():
                yield
            self._remove(demand.key)
            if not demand.members:
                self._put(demand.key, (demand,))

    def follow_groups(
        self, groups: Iterable[WaitingGroup], skips: Callable[[str], bool], *, shares: bool
    ) -> Iterator[None]:
        """Note the groups that wait, but for those that `skips` names (by `namespace/name`): nothing changed of them. As `steps` yields where others may run."""
        # Without quotas nobody borrows.
        counted = groups if self._snapshot.quota_index.quotas else ()
        found = {group.pod_group.key: group for group in counted}
        for name, former in tuple(self._groups.items()):
            if found.get(name) is not former and (name in found or not skips(name)):
                del self._groups[name]
                self._remove(former.key)
        for name, group in found.items():
            if name not in self._groups:
                self._groups[name] = group
                if group.whole and group.more != 0 and (demands := group.first_enough):
                    self._put(group.key, demands)
        yield from self.steps(shares=shares)

    def _put(self, key: str, demands: Demands) -> None:
        namespace = demands[0].claims[0].namespace
        own = self._waiting.get(namespace)
        if own is None:
            own = self._waiting[namespace] = WaitingAmounts(self._charging)
        self._places[key] = namespace, own.put(key, demands)

    def _remove(self, key: str) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        namespace, asked = place
        own = self._waiting[namespace]
        own.remove(key, asked)
        if not own.waiting:
            del self._waiting[namespace]

    def steps(self, *, shares: bool) -> Iterator[None]:
        """Find out what those that wait take, before anybody asks; yields where others may run. `shares`: some devices give shares."""
        pace = Pace()
        for namespace, own in tuple(self._waiting.items()):
            use = self._charging.usage.of(namespace)
            if use is not None and use.quota.spec.cohort is not None:
                yield from own.steps(use, pace, shares=shares)

    def go_before(self, use: QuotaUse, borrowed: Sequence[Resource], *, shares: bool) -> bool:
        """Say whether a demand of another quota of the cohort waits for what is guaranteed to it, and may take what counts in these resources.

        `borrowed`: of which this quota would have more than is guaranteed to it. `shares`: some devices give shares.
        """
        seen = self._charging.usage.version, self._charging.learnt.end, shares
        if seen != self._answered:
            self._answered = seen
            self._answers.clear()
        key = use, tuple(borrowed)
        found = self._answers.get(key)
        if found is None:
            waiting = (
                alike
                for namespace, own in self._waiting.items()
                if (other := self._other(namespace, use)) is not None
                for alike in own.within_guarantee(other, borrowed, shares=shares)
                if any(map(self._is_waiting, alike.values()))
            )
            ahead = [*islice(waiting, _MOST_AHEAD)]
            self.ahead.update((each.key, each) for alike in ahead for each in chain(*alike.values()))
            found = self._answers[key] = bool(ahead)
        return found

    def _is_waiting(self, demands: Demands) -> bool:
        return all(
            self._snapshot.allocation(each.claims[0]) is None and not self.is_hopeless(each.key)
            for each in demands
        )

    def _other(self, namespace: str, use: QuotaUse) -> QuotaUse | None:
        """Return the use of a namespace's quota, if it is another one of the cohort."""
        other = self._charging.usage.of(namespace)
        if other is None or other is use or other.quota.spec.cohort != use.quota.spec.cohort:
            return None
        return other
