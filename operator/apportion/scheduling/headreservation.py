"""HeadReservation: in the walk through the queue, lets devices be reserved for those that were refused and come first.

In: what was just decided, and what waits. Out: reservations.
"""

from collections.abc import Iterable

from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
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
        if not isinstance(queued, CrossGroupDemand) and self._decider.reservations.has_place(queued):
            self.reserve((queued,))

    def reserve(self, waiting: Iterable[Queued]) -> None:
        """Reserve devices for the first of those that were refused and wait on."""
        refused: list[Head] = [
            each
            for each in waiting
            if not isinstance(each, CrossGroupDemand)
            and self._decider.refusals.was_refused(each.key)
            and not self._decider.quotas.stands_back(members_of(each))
            and all(is_current(demand, self._snapshot) for demand in members_of(each))
            and not (isinstance(each, WaitingGroup) and not each.whole)
        ]
        for each in self._decider.reservations.renew(refused, self._is_evaluated):
            if isinstance(each, WaitingDemand):
                self._decider.refusals.cover(each, None)

    def _is_evaluated(self, demand: WaitingDemand) -> bool:
        """Say whether no selector of a demand is still to be evaluated, or costs too much."""
        try:
            return not self._preparing.waits(demand)
        except BrokenInput:
            return False
