"""WriteTurns: so many writes at once, and namespaces take turns where more wait.

In: who wants to write, by namespace. Out: a turn for each. Without turns the pods of one large group would have all of their
claims written before a single pod of another namespace has its own. One namespace alone has no more than some writes under way:
what the API server has been asked for already, others wait for (`bench.gangs --pods`).
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class WriteTurns:
    """Lets writes begin."""

    def __init__(self, concurrency: int, most: int) -> None:
        """`concurrency` writes are under way at once, `most` of one namespace."""
        self._free = concurrency
        self._most = most
        self._running: Counter[str] = Counter()
        """Writes under way by namespace."""
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Turns by namespace; the one whose turn it is first."""

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn of a namespace; the write is over when the block ends."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
        return next((each for each in self._waiting if self._running[each] < self._most), None)

    def _end(self, namespace: str) -> None:
        self._free += 1
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
        self._begin()
