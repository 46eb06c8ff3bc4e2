"""The trunk of the Node Resource Interface: one socket on which runtime and plugin call each other.

In: a connected stream, a handler of the runtime's calls. Out: answers to ours. Wire formats: containerd/nri pkg/net/multiplex (a frame
is channel, length, bytes; channel 1 is the plugin's service, 2 the runtime's) and containerd/ttrpc PROTOCOL.md (a message is
length, stream, type, flags, bytes; big endian). Calls without streaming only: NRI has no others.
"""

import asyncio
import itertools
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog
from google.protobuf.message import DecodeError

from apportion.agent.proto import ttrpc_pb2
from apportion.errors import ApportionError, NotReady

_log = structlog.get_logger()

PLUGIN, RUNTIME = 1, 2
"""Channels: calls of the runtime to the plugin, and of the plugin to the runtime."""
_FRAME: Final = struct.Struct(">II")
_MESSAGE: Final = struct.Struct(">IIBB")
_REQUEST, _RESPONSE = 1, 2
_LONGEST: Final = 4 * 2**20
"""Bytes of a message (ttrpc `messageLengthMax`); a longer one is no message."""
_UNKNOWN: Final = 2
"""Status of a call that failed (google.rpc.Code)."""

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a call: method and message in, message out; its error goes to the caller as text."""


class Trunk:
    """Both directions of one connection; `run` serves until it ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._streams = itertools.count(1, 2)  # ttrpc: a client's streams have odd numbers
        self._waiting: dict[int, asyncio.Future[ttrpc_pb2.Response]] = {}
        self._parts = {PLUGIN: bytearray(), RUNTIME: bytearray()}
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Read until the other side closes. Raises NotReady for what is no message; calls that are being answered go on."""
        try:
            while True:
                channel, length = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
                if length > _LONGEST + _MESSAGE.size or channel not in self._parts:
                    raise NotReady(
                        f"the runtime sent {length} bytes for channel {channel}, which is no message"
                    )
                self._parts[channel] += await self._reader.readexactly(length)
                self._read(channel)
        except (asyncio.IncompleteReadError, OSError):
            return
        except DecodeError as error:
            raise NotReady(f"the runtime sent what is no message: {error}") from None
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(NotReady("the runtime has closed its socket"))
            self._writer.close()

    async def call(self, service: str, method: str, payload: bytes) -> bytes:
        """Call the runtime; `run` must be running. Raises NotReady with the error that it answers."""
        stream = next(self._streams)
        answer = self._waiting[stream] = asyncio.get_running_loop().create_future()
        request = ttrpc_pb2.Request(service=service, method=method, payload=payload)
        try:
            self._send(RUNTIME, stream, _REQUEST, request.SerializeToString())
            response = await answer
        finally:
            del self._waiting[stream]
        if response.status.code:
            raise NotReady(f"{service}/{method}: {response.status.message}")
        said: bytes = response.payload
        return said

    def _read(self, channel: int) -> None:
        """Take all complete messages of a channel: they need not begin with a frame."""
        received = self._parts[channel]
        while len(received) >= _MESSAGE.size:
            length, stream, kind, _ = _MESSAGE.unpack_from(received)
            if length > _LONGEST:
                raise NotReady(f"the runtime announced a message of {length} bytes")
            end = _MESSAGE.size + length
            if len(received) < end:
                return
            message = bytes(received[_MESSAGE.size : end])
            del received[:end]
            if channel == PLUGIN and kind == _REQUEST:
                task = asyncio.create_task(self._answer(stream, ttrpc_pb2.Request.FromString(message)))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
            elif channel == RUNTIME and kind == _RESPONSE:
                waiting = self._waiting.get(stream)
                if waiting is not None and not waiting.done():
                    waiting.set_result(ttrpc_pb2.Response.FromString(message))

    async def _answer(self, stream: int, request: ttrpc_pb2.Request) -> None:
        response = ttrpc_pb2.Response()
        try:
            response.payload = await self._handler(request.method, request.payload)
        except ApportionError as error:
            response.status.code, response.status.message = _UNKNOWN, str(error)
        except Exception as error:  # noqa: BLE001 - without an answer the runtime closes the connection, and others' sandboxes are not heard of
            _log.exception("nri.failed", method=request.method)
            response.status.code, response.status.message = _UNKNOWN, f"defect of the agent: {error!r}"
        # A call that took too long for the runtime: it has closed the connection.
        with suppress(OSError, RuntimeError):
            self._send(PLUGIN, stream, _RESPONSE, response.SerializeToString())

    def _send(self, channel: int, stream: int, kind: int, message: bytes) -> None:
        whole = _MESSAGE.pack(len(message), stream, kind, 0) + message
        self._writer.write(_FRAME.pack(channel, len(whole)) + whole)
