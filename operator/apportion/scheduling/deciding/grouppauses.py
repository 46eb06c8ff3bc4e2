"""GroupPauses: when large groups that were not served are looked at again.

In: what became of a look at a group, and how long it took. Out: the groups that a pass leaves out. To look at a large group takes as long as to
serve many others. So one that was refused rests, for twice as long each time; others get fifty times as long as each look took. What it lacked
ends the rest at once: room for as many pods as it needs, by counting, or all of the devices that are reserved for it.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from apportion.scheduling.backfill.reservations import Reservations
from apportion.scheduling.deciding.awaitedroom import AwaitedRoom
from apportion.scheduling.demands.groups import WaitingGroup

LARGE = 32
"""Demands from which on a group that was refused rests: to try it takes as long as to try so many demands."""
_OTHERS = 50
"""Seconds that others get for each second in which a large group was looked at and not served."""
_FIRST_REST, _LONGEST_REST = 1.0, 30.0
"""Seconds."""
_AT_ONCE = 0.005
"""Seconds in which a pass asks whether what groups lacked has come; the next pass asks about the others."""


@dataclass(slots=True)
class _Pause:
    """The pause of one group."""

    until: float = -math.inf
    """By the clock."""
    others: float = -math.inf
    """Until when others are served in any case, where the group may have been looked at in vain."""
    rest: float = 0.0
    """How long the latest rest was, in seconds."""
    room: AwaitedRoom | None = None
    """What it lacked; None: nobody has counted that."""


class GroupPauses:
    """The pauses of all groups, by `namespace/name`."""

    def __init__(self, reservations: Reservations, clock: Callable[[], float]) -> None:
        self._reservations = reservations
        self._clock = clock
        self._pauses: dict[str, _Pause] = {}
        self._skipped: dict[str, _Pause] = {}
        """Of the groups that this pass leaves out."""
        self._is_behind = False
        """Whether it is not known of all that were asked whether what they lacked has come: the next pass goes on."""
        self._turn = 0
        """Where the next pass begins to ask."""

    @property
    def resumes(self) -> float:
        """When the first of the groups that this pass leaves out is looked at though nothing happens, by the clock."""
        now = (self._clock(),) if self._is_behind else ()
        return min((*now, *(pause.until for pause in self._skipped.values())), default=math.inf)

    def start(self, being_decided: Collection[str]) -> None:
        """Start a pass: what is left out stays so until its end. `being_decided`: groups that it does not leave out."""
        began = self._clock()
        self._skipped = {
            key: pause
            for key, pause in self._pauses.items()
            if pause.until > began and key not in being_decided
        }
        asked = [key for key, pause in self._skipped.items() if pause.others <= began]
        self._turn %= max(len(asked), 1)
        self._is_behind = False
        for key in (*asked[self._turn :], *asked[: self._turn]):
            self._turn += 1
            if self._has_come(key, self._skipped[key]):
                del self._skipped[key]
            if self._clock() - began >= _AT_ONCE:
                break

    def skips(self, key: str) -> bool:
        """Say whether a group is not looked at in this pass."""
        return key in self._skipped

    def keep(self, groups: Collection[str]) -> None:
        """Forget all groups but these and those that this pass leaves out."""
        self._pauses = {
            key: pause for key, pause in self._pauses.items() if key in groups or key in self._skipped
        }

    def looked_at(self, group: WaitingGroup, seconds: float) -> None:
        """Note that a group was looked at for so long in vain, though nobody tried to serve it."""
        if len(group.pod_group.pods) >= LARGE:
            pause = self._pauses.setdefault(group.pod_group.key, _Pause())
            pause.others = self._clock() + seconds * _OTHERS
            pause.until = max(pause.until, pause.others)

    def refused(self, group: WaitingGroup, seconds: float, room: AwaitedRoom | None, *, rests: bool) -> None:
        """Note that a group was refused after so many seconds; `rests`: for devices."""
        if len(group.pod_group.pods) < LARGE:
            return
        now, pause = self._clock(), self._pauses.setdefault(group.pod_group.key, _Pause())
        pause.others = pause.until = now + seconds * _OTHERS
        pause.room = room
        if rests and len(group.demands) >= LARGE:
            pause.rest = min(pause.rest * 2 or _FIRST_REST, _LONGEST_REST)
            pause.until = max(pause.until, now + pause.rest)
        needs_all = group.served < group.pod_group.least and not self._is_free(group.pod_group.key)
        if room is not None and room.is_short and needs_all:
            pause.others = (
                now  # it was not in vain: what it waits for is known, and does not come with each device
            )

    def served(self, group: WaitingGroup) -> None:
        """Note that a group got devices."""
        self._pauses.pop(group.pod_group.key, None)

    def _has_come(self, key: str, pause: _Pause) -> bool:
        has_come = pause.room is not None and pause.room.has_come()
        self._is_behind |= pause.room is not None and pause.room.is_behind
        return has_come or self._is_free(key)

    def _is_free(self, key: str) -> bool:
        return self._reservations.is_free(f"group/{key}")
