"""A hand that plays the container runtime's side of the Node Resource Interface.

In: sandboxes that begin and end. Out: what the plugin answers. The frames are made here anew, and not by the product's code; that they
are containerd's is shown on the real node.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from google.protobuf.message import Message

from apportion.agent.proto import nri_pb2, ttrpc_pb2
from testbed.errors import TestbedError

PODS_AT_ONCE: Final = 1
"""Pods of one Synchronize: the runtime splits long lists."""


class RuntimeHand:
    """One runtime, with one plugin at a time."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, nri_pb2.PodSandbox] = {}
        self.containers: list[nri_pb2.Container] = []
        self.events = 0
        self.synchronized = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[ttrpc_pb2.Response]] = {}
        self._next = 1
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, pod: str, network: str) -> str:
        """Start a pod's sandbox; returns the plugin's error, and then it does not start."""
        sandbox = _sandbox(pod, network)
        answer = await self._ask("RunPodSandbox", sandbox)
        error: str = answer.status.message
        if not error:
            self.sandboxes[pod] = sandbox
        return error

    def note(self, pod: str, network: str) -> None:
        """Start a pod's sandbox while no plugin is there."""
        self.sandboxes[pod] = _sandbox(pod, network)

    async def end(self, pod: str, *, heard: bool = True) -> None:
        """End a pod's sandbox; if nobody hears of it, the plugin was not there."""
        sandbox = self.sandboxes.pop(pod)
        if heard:
            answer = await self._ask("StopPodSandbox", sandbox)
            _insist(not answer.status.message, f"StopPodSandbox: {answer.status.message}")

    async def create(self, pod: str, *mounts: str) -> str:
        """Create a container in a pod's sandbox that mounts these files of the host; returns the plugin's error."""
        container = self._container(pod, *mounts)
        try:
            answer = await self._call(
                "CreateContainer",
                nri_pb2.CreateContainerRequest(pod=self.sandboxes[pod], container=container),
            )
        except ConnectionResetError:
            return ""
        error: str = answer.status.message
        return error

    def note_container(self, pod: str, *mounts: str) -> None:
        """Start a container while no plugin is there."""
        self.containers.append(self._container(pod, *mounts))

    def _container(self, pod: str, *mounts: str) -> nri_pb2.Container:
        files = [nri_pb2.Mount(source=source) for source in ("/etc/hosts", *mounts)]
        return nri_pb2.Container(name="main", pod_sandbox_id=self.sandboxes[pod].id, mounts=files)

    async def end_once_more(self, sandbox: nri_pb2.PodSandbox) -> None:
        """End one that has ended, as kubelet does before it removes it."""
        await self._ask("StopPodSandbox", sandbox)

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncIterator[None]:
        """Listen on the socket until the block ends."""
        server = await asyncio.start_unix_server(self._serve, socket)
        try:
            yield
        finally:
            server.close()
            self.disconnect()
            self.synchronized.clear()

    def disconnect(self) -> None:
        """Close the connection to the plugin."""
        if self._writer is not None:
            self._writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._answers = writer, {}
        answers = self._answers
        try:
            while True:
                channel, length = struct.unpack(">II", await reader.readexactly(8))
                frame = await reader.readexactly(length)
                size, stream, kind, _ = struct.unpack(">IIBB", frame[:10])
                _insist(size == len(frame) - 10, "a message in several frames")
                if channel == 2:
                    request = ttrpc_pb2.Request.FromString(frame[10:])
                    asked = (request.service, request.method, kind)
                    expected = ("nri.pkg.api.v1alpha1.Runtime", "RegisterPlugin", 1)
                    _insist(asked == expected, f"{asked} and not {expected}")
                    _send(writer, 2, stream, 2, ttrpc_pb2.Response().SerializeToString())
                    task = asyncio.create_task(self._welcome())
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                elif (waiting := answers.get(stream)) is not None and not waiting.done():
                    waiting.set_result(ttrpc_pb2.Response.FromString(frame[10:]))
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            writer.close()
            if self._writer is writer:
                self._writer = None
                self.synchronized.clear()
            for waiting in answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError())

    async def _welcome(self) -> None:
        with suppress(ConnectionResetError):
            await self._synchronize()

    async def _synchronize(self) -> None:
        answer = await self._call("Configure", nri_pb2.Empty())
        self.events = nri_pb2.ConfigureResponse.FromString(answer.payload).events
        pods = list(self.sandboxes.values())
        while True:
            part, pods = pods[:PODS_AT_ONCE], pods[PODS_AT_ONCE:]
            request = nri_pb2.SynchronizeRequest(pods=part, containers=self.containers, more=bool(pods))
            answer = await self._call("Synchronize", request)
            more = nri_pb2.SynchronizeResponse.FromString(answer.payload).more
            _insist(more == bool(pods), "Synchronize answers another `more` than was asked")
            if not pods:
                break
        self.synchronized.set()

    async def _ask(self, method: str, sandbox: nri_pb2.PodSandbox) -> ttrpc_pb2.Response:
        """Ask the plugin; one that dies has no objection (containerd/nri pkg/adaptation/plugin.go, isFatalError)."""
        try:
            return await self._call(method, nri_pb2.PodRequest(pod=sandbox))
        except ConnectionResetError:
            return ttrpc_pb2.Response()

    async def _call(self, method: str, message: Message) -> ttrpc_pb2.Response:
        await asyncio.sleep(0)
        writer, answers = self._writer, self._answers
        if writer is None:
            raise ConnectionResetError
        stream, self._next = self._next, self._next + 2
        answer: asyncio.Future[ttrpc_pb2.Response] = asyncio.get_running_loop().create_future()
        answers[stream] = answer
        request = ttrpc_pb2.Request(
            service="nri.pkg.api.v1alpha1.Plugin", method=method, payload=message.SerializeToString()
        )
        try:
            _send(writer, 1, stream, 1, request.SerializeToString())
            async with asyncio.timeout(20):
                return await answer
        finally:
            answers.pop(stream, None)


def _send(writer: asyncio.StreamWriter, channel: int, stream: int, kind: int, body: bytes) -> None:
    whole = struct.pack(">IIBB", len(body), stream, kind, 0) + body
    # As the runtime does: a message in as many frames as it likes.
    for part in (whole[:7], whole[7:]):
        writer.write(struct.pack(">II", channel, len(part)) + part)


def _sandbox(pod: str, network: str) -> nri_pb2.PodSandbox:
    spaces = [nri_pb2.LinuxNamespace(type="ipc")]
    spaces += [nri_pb2.LinuxNamespace(type="network", path=network)] if network else []
    linux = nri_pb2.LinuxPodSandbox(namespaces=spaces)
    return nri_pb2.PodSandbox(id=f"sandbox-{pod}", uid=pod, name="train", namespace="team", linux=linux)


def _insist(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - the condition is all that it takes
    if not holds:
        raise TestbedError(f"the plugin does not speak as the runtime does: {otherwise}")
