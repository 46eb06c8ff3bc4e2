"""Progress: up to which resourceVersion a kind was observed, and who waits for one.

In: the resourceVersions of the server's answers. Out: where the next watch starts, how long the server has said nothing, whether what is
waited for was observed.
"""

import asyncio
import math
import time
from collections.abc import Callable

from apportion.cluster.resourceversion import number
from apportion.errors import Unreachable

_MOST_OLDER = 3
"""Lists in a row that are older than what was observed, of which the last is believed."""


class Progress:
    """That of one kind."""

    def __init__(self, kind: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`kind`: its plural, for errors."""
        self.version = ""
        """Where the next watch starts; empty: list first."""
        self.observed = 0
        """Everything up to this resourceVersion was observed."""
        self.heard = -math.inf
        """When the server last said anything about the kind, by the clock."""
        self._clock = clock
        self._missed_since = math.inf
        self._kind = kind
        self._goal = 0
        self._reached = asyncio.Event()
        self._older = 0
        """Lists in a row that were older than what was observed."""

    def age(self) -> float:
        """Return the seconds since the server last said anything about the kind."""
        return self._clock() - self.heard

    def hear(self) -> None:
        """Note that the server has said something about the kind."""
        self.heard = self._clock()

    def miss(self) -> None:
        """Note that the server does not serve the kind, or does not let us read it."""
        self._missed_since = min(self._missed_since, self._clock())

    def missed(self) -> float:
        """Return for how many seconds the kind has been missed; 0: it is not."""
        return max(0.0, self._clock() - self._missed_since)

    def advance(self, version: str, *, listed: bool = False) -> None:
        """Note that everything up to a version was observed; `listed`: what was observed before does not count beside a whole list."""
        self.version = version
        self.observed = number(version) if listed else max(self.observed, number(version))
        self._older, self._missed_since = 0, math.inf
        self.hear()
        if not self.behind:
            self._reached.set()

    def doubt(self, version: str) -> bool:
        """Say whether a list of this version shows another history than what was observed.

        Consistent lists never go back, so either etcd was restored, or something between us and it answers with old data.
        Believing the latter would free devices that are in use: raises Unreachable unless it is the third such list in a row.
        """
        if number(version) >= self.observed:
            return False
        self._older += 1
        if self._older < _MOST_OLDER:
            raise Unreachable(
                f"list of {self._kind}: version {version} is older than {self.observed}, which was observed"
            )
        return True

    @property
    def behind(self) -> bool:
        """Whether the goal was not observed."""
        return self.observed < self._goal

    def aim(self, goal: int) -> None:
        """Wait for this resourceVersion from now on."""
        self._goal = goal
        self._reached.clear()

    async def reach(self, within: float) -> bool:
        """Say whether the goal is observed within so many seconds."""
        try:
            async with asyncio.timeout(within):
                return await self._reached.wait()
        except TimeoutError:
            return False
