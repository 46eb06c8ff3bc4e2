"""ReadinessCheck: whether one that waits may be decided now.

In: a demand or group. Out: whether it backs off, or its selectors are to be evaluated first, or cost too much; one whose selectors do
is refused here.
"""

from collections.abc import Generator
from typing import Literal, TypeAlias

from apportion.cluster.recorder import Recorder
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.preparing import Preparing
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecider import GroupDecider
from apportion.scheduling.demands.groups import CrossGroupDemand, Queued, demands_of, key_of
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.events import events

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

    def steps(self, queued: Queued) -> Generator[None, None, Readiness]:
        """Say whether to decide; one whose selectors cost too much is refused. Yields where others may run: a group may have thousands of members."""
        if isinstance(queued, WaitingDemand):
            return self.of(queued)
        begun = isinstance(queued, CrossGroupDemand) or self._group_decider.is_begun(queued)
        if begun or self._decider.refusals.stands(key_of(queued)):
            return "ready"
        waits = False
        for demand in demands_of(queued):
            # Selectors that are new are compiled here: some thousandths of a second.
            yield
            try:
                waits |= self._preparing.waits(demand)
            except BrokenInput as error:
                self._decider.refusals.refuse(key_of(queued), "costly")
                for member in demands_of(queued):
                    events.costly(self._recorder, member, error)
                    yield
                return "costly"
        return "waits" if waits else "ready"

    def of(self, demand: WaitingDemand) -> Readiness:
        """Say the same of a demand, in one step."""
        if self._decider.rests(demand.key):
            return "rests"
        try:
            return "waits" if self._preparing.waits(demand) else "ready"
        except BrokenInput as error:
            self._decider.refusals.refuse(demand.key, "costly")
            self._decider.refusals.cover(demand, self._decider.shape(demand), costly=True)
            events.costly(self._recorder, demand, error)
            return "costly"
