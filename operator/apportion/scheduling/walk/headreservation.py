"""HeadReservation: in the walk through the queue, lets devices be reserved for those that were refused and come first.

In: what was just decided, and what waits. Out: reservations.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill.heads import Head, key_of, members_of, queue_of
from apportion.scheduling.candidates.preparing import Preparing
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.groups import CrossGroupDemand, Queued, WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand, is_current


class HeadReservation:
    """Tells the reservations who was refused."""

    def __init__(self, snapshot: Snapshot, decider: Decider, preparing: Preparing) -> None:
        self._snapshot = snapshot
        self._decider = decider
        self._preparing = preparing
        self._refused: dict[int, deque[Head]] = {}
        """Those that were refused in this walk, in their order, as many as their policy has places: by its queue (its `id`)."""

    def begin(self) -> None:
        """Start a walk: nobody was refused yet."""
        self._refused.clear()

    def abandon(self) -> None:
        """End all reservations: what changes from now on nobody looks at."""
        reservations = self._decider.reservations
        for each in tuple(reservations.reserved):
            reservations.drop(key_of(each.head))

    def reserve_at_once(self, queued: Queued) -> Iterator[None]:
        """Reserve devices, now that one was decided, for the first that was refused so far, if no other has to give way: those behind then go around. Yields while it is planned.

        A place that becomes free during a walk is not for who happens to be refused next. The reservation of one for which it is in vain ends.
        """
        if not _may_wait(queued):
            return
        reservations, queue = self._decider.reservations, queue_of(queued, self._snapshot.managed)
        if key_of(queued) in reservations and self._is_in_vain(queued):
            reservations.drop(key_of(queued))
        refused = self._refused.setdefault(id(queue), deque())
        if (
            len(refused) < queue.most_reserved
            and self._is_refused(queued)
            and reservations.is_candidate(queued)
        ):
            refused.append(queued)
        while refused and reservations.has_place(refused[0]):
            yield from self.reserve((refused.popleft(),))

    def reserve(self, waiting: Iterable[Queued]) -> Iterator[None]:
        """Reserve devices for the first of those that were refused and wait on; yields while it is planned."""
        others = [each for each in waiting if _may_wait(each)]
        made = yield from self._decider.reservations.renew(others, self._may_have, self._preparing.is_done)
        for head in made:
            if isinstance(head, WaitingDemand):
                self._decider.refusals.cover(head, None)

    def _may_have(self, head: Head) -> bool:
        """Say whether one was refused, waits as it did, and does not stand back behind others."""
        return self._is_refused(head) and not self._decider.quotas.stands_back(members_of(head))

    def _is_refused(self, head: Head) -> bool:
        """Say whether one was refused and waits as it did."""
        return (
            self._decider.refusals.was_refused(head.key)
            and not self._is_in_vain(head)
            and all(is_current(demand, self._snapshot) for demand in members_of(head))
            and not (isinstance(head, WaitingGroup) and not head.whole)
        )

    def _is_in_vain(self, head: Head) -> bool:
        """Say whether devices would be reserved in vain for one: it gets nothing whatever is free, or nothing before others that wait for what was given back."""
        rests = self._decider.candidates.rests
        return self._decider.refusals.is_unservable(head.key) or any(map(rests, members_of(head)))


def _may_wait(queued: Queued) -> TypeGuard[Head]:
    """Say whether one waits for devices: a group of which all pods that there are have theirs waits for pods."""
    return not isinstance(queued, CrossGroupDemand) and bool(members_of(queued))
