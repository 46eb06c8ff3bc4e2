"""ReadinessCheck: whether one that waits may be decided now.

In: a demand or group. Out: whether it backs off, or its selectors are to be evaluated first, or cost too much; one whose selectors do
is refused here.
"""

from typing import Literal, TypeAlias

from apportion.cluster.recorder import Recorder
from apportion.errors import BrokenInput
from apportion.scheduling import events
from apportion.scheduling.decider import Decider
from apportion.scheduling.groupdecider import GroupDecider
from apportion.scheduling.groups import CrossGroupDemand, Queued, demands_of, key_of
from apportion.scheduling.preparing import Preparing
from apportion.scheduling.waiting import WaitingDemand

Readiness: TypeAlias = Literal["ready", "rests", "waits", "costly"]
"""Whether a demand may be decided: it backs off, selectors are to be evaluated first, or they cost too much."""


class ReadinessCheck:
    """Looks at those whose turn it is."""

    def __init__(
        self, decider: Decider, group_decider: GroupDecider, preparing: Preparing, recorder: Recorder
    ) -> None:
        self._decider = decider
        self._group_decider = group_decider
        self._preparing = preparing
        self._recorder = recorder

    def of(self, queued: Queued) -> Readiness:
        """Say whether to decide; a demand whose selectors cost too much is refused."""
        if isinstance(queued, WaitingDemand) and self._decider.rests(queued.key):
            return "rests"
        begun = isinstance(queued, CrossGroupDemand) or self._group_decider.is_begun(queued)
        if begun or self._decider.refusals.stands(key_of(queued)):
            return "ready"
        members = demands_of(queued)
        try:
            waits = [self._preparing.waits(demand) for demand in members]
        except BrokenInput as error:
            self._decider.refusals.refuse(key_of(queued), "costly")
            if isinstance(queued, WaitingDemand):
                self._decider.refusals.cover(queued, self._decider.shape(queued), costly=True)
            for demand in members:
                events.costly(self._recorder, demand, error)
            return "costly"
        return "waits" if any(waits) else "ready"
