"""A TCP relay between one agent and the API server, which tests can cut.

In: the server's port. Out: a port of its own. While it is cut, every connection breaks and none is made.
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16


class TcpRelay:
    """`async with TcpRelay(port) as relay:` relays `relay.port` to the server's port."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.broken = False
        self.port = 0

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Break every connection and stop."""
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection (RST, not an orderly end) and refuse new ones."""
        self.broken = True
        for writer in self._open:
            writer.transport.abort()

    def restore(self) -> None:
        """Let connections through again."""
        self.broken = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.broken:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            upstream, sink = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, sink}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, sink))
                both.create_task(_pump(upstream, writer))
        finally:
            for end in (writer, sink):
                self._open.discard(end)
                end.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    # When one direction ends, the other is closed too.
    sink.transport.abort()
