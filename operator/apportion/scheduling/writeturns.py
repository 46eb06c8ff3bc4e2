"""WriteTurns: so many writes at once, and namespaces take turns where more wait.

In: who wants to write, by namespace. Out: a turn for each. Without turns the pods of one large group would have all of their
claims written before a single pod of another namespace has its own.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class WriteTurns:
    """Lets writes begin."""

    def __init__(self, concurrency: int) -> None:
        """`concurrency` writes are under way at once."""
        self._free = concurrency
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
                self._end()
            raise
        try:
            yield
        finally:
            self._end()

    def _begin(self) -> None:
        """Let those begin whose turn it is."""
        while self._free and self._waiting:
            namespace, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if not turn.cancelled():
                self._free -= 1
                turn.set_result(None)
                self._waiting.move_to_end(namespace)
            if not turns:
                del self._waiting[namespace]

    def _end(self) -> None:
        self._free += 1
        self._begin()
