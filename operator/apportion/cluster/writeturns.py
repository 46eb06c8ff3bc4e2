"""WriteTurns: so many writes at once, and namespaces take turns where more wait.

In: who wants to write, by namespace. Out: a turn for each. Without turns the pods of one large group would have all of their
claims written before a single pod of another namespace has its own. Beside others a namespace has no more than some writes under
way: what the API server has been asked for already, others wait for (`bench.gangs --pods`). Alone it may have more, because where an
answer takes long few writes under way are few a second; a part is left for the first write of another one even then.
"""

import asyncio
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_ALONE_AFTER = 1.0
"""Seconds without a write of another namespace after which one is alone."""


class WriteTurns:
    """Lets writes begin."""

    def __init__(
        self, concurrency: int, most: int, *, alone: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`concurrency` writes are under way at once, `most` of one namespace, `alone` of one beside which no other has written lately."""
        self._free = concurrency
        self._most = most
        self._alone = alone
        self._clock = clock
        self._latest = self._before = ("", -math.inf)
        """Who wrote last and when, and the last time that another namespace did."""
        self._running: Counter[str] = Counter()
        """Writes under way by namespace."""
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Turns by namespace; the one whose turn it is first."""

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn of a namespace; the write is over when the block ends."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._note(namespace)
        self._waiting.setdefault(namespace, deque()).append(turn)
        self._begin()
        try:
            await turn
        except asyncio.CancelledError:
            # A turn that began and was cancelled before anybody used it is over, too.
            if not turn.cancelled():
                self._end(namespace)
            raise
        try:
            yield
        finally:
            self._end(namespace)

    def _begin(self) -> None:
        """Let those begin whose turn it is."""
        while self._free and (namespace := self._next()) is not None:
            turns = self._waiting[namespace]
            turn = turns.popleft()
            if not turn.cancelled():
                self._free -= 1
                self._running[namespace] += 1
                turn.set_result(None)
                self._waiting.move_to_end(namespace)
            if not turns:
                del self._waiting[namespace]

    def _next(self) -> str | None:
        """Return the namespace whose turn it is, of those that have not as many under way as they may."""
        return next((each for each in self._waiting if self._running[each] < self._limit(each)), None)

    def _limit(self, namespace: str) -> int:
        """Return how many writes a namespace that waits may have under way."""
        _, other = self._before if self._latest[0] == namespace else self._latest
        beside = len(self._waiting) > 1 or self._running.keys() - {namespace}
        return self._most if beside or self._clock() - other < _ALONE_AFTER else self._alone

    def _note(self, namespace: str) -> None:
        if self._latest[0] != namespace:
            self._before = self._latest
        self._latest = (namespace, self._clock())

    def _end(self, namespace: str) -> None:
        self._free += 1
        self._note(namespace)
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        self._begin()
