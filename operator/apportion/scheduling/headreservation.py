"""HeadReservation: in the walk through the queue, lets devices be reserved for those that were refused and come first.

In: what was just decided, and what waits. Out: reservations.
"""

from collections.abc import Iterable
from typing import TypeGuard

from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill.heads import Head, members_of
from apportion.scheduling.decider import Decider
from apportion.scheduling.groups import CrossGroupDemand, Queued, WaitingGroup
from apportion.scheduling.preparing import Preparing
from apportion.scheduling.waiting import WaitingDemand, is_current


class HeadReservation:
    """Tells the reservations who was refused."""

    def __init__(self, snapshot: Snapshot, decider: Decider, preparing: Preparing) -> None:
        self._snapshot = snapshot
        self._decider = decider
        self._preparing = preparing

    def reserve_at_once(self, queued: Queued) -> None:
        """Reserve devices for one that was decided just now, if it was refused and no other has to give way: those behind it then go around."""
        if _may_wait(queued) and self._decider.reservations.has_place(queued):
            self.reserve((queued,))

    def reserve(self, waiting: Iterable[Queued]) -> None:
        """Reserve devices for the first of those that were refused and wait on."""
        others = [each for each in waiting if _may_wait(each)]
        for head in self._decider.reservations.renew(others, self._may_have, self._preparing.is_done):
            if isinstance(head, WaitingDemand):
                self._decider.refusals.cover(head, None)

    def _may_have(self, head: Head) -> bool:
        """Say whether one was refused, waits as it did, and does not stand back behind others."""
        members = members_of(head)
        return (
            self._decider.refusals.was_refused(head.key)
            and not self._decider.quotas.stands_back(members)
            and all(is_current(demand, self._snapshot) for demand in members)
            and not (isinstance(head, WaitingGroup) and not head.whole)
        )


def _may_wait(queued: Queued) -> TypeGuard[Head]:
    """Say whether one waits for devices: a group of which all pods that there are have theirs waits for pods."""
    return not isinstance(queued, CrossGroupDemand) and bool(members_of(queued))
