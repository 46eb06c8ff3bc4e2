"""The agent as a plugin of the container runtime (Node Resource Interface): it hears when a pod's sandbox begins and ends, and of its containers.

In: the runtime's socket, what to do at each. Out: nothing. A sandbox of which the handler says that it cannot have its NICs does not
start, nor does a container; kubelet shows the reason at the pod, and tries again. Interface: containerd/nri pkg/api/api.proto. containerd has it on by
default since 2.0, CRI-O since 1.26.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from apportion.agent.network.trunk import Trunk
from apportion.agent.proto import nri_pb2
from apportion.errors import ApportionError, NotReady

_log = structlog.get_logger()

_RUNTIME: Final = "nri.pkg.api.v1alpha1.Runtime"
_INDEX: Final = "50"
"""Two digits: where the plugin stands among others; it changes nothing that they see."""
_EVENTS: Final = sum(
    1 << event - 1 for event in (nri_pb2.RUN_POD_SANDBOX, nri_pb2.STOP_POD_SANDBOX, nri_pb2.CREATE_CONTAINER)
)
_PAUSE: Final = 2.0
"""Seconds between two tries to reach the runtime."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod's sandbox, as the runtime has it."""

    pod: str
    """UID of the pod."""
    key: str
    """`namespace/name` of the pod, for people."""
    network: str
    """Path of its network namespace; "" for a pod in the host's network, and for a sandbox that is stopping in some runtimes."""


Mounting = tuple[Sandbox, Collection[str]]
"""A container, by its sandbox and the files of the host that it mounts."""


class NriPlugin:
    """Keeps the connection; `connected` says whether sandboxes of now are heard of."""

    def __init__(
        self,
        socket: Path,
        *,
        began: Callable[[Sandbox], Awaitable[None]],
        creating: Callable[[Sandbox, Collection[str]], Awaitable[None]],
        ending: Callable[[Sandbox], Awaitable[None]],
        running: Callable[[Sequence[Sandbox], Sequence[Mounting]], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`began` and `ending` are called for each sandbox, `running` with all of them after each connection.

        `creating` is called for each container, with its sandbox and the files of the host that it mounts; `running` is told of
        those that there are.
        """
        self._socket = socket
        self._began = began
        self._creating = creating
        self._ending = ending
        self._running = running
        self._sleep = sleep
        self._found: dict[str, Sandbox] = {}
        """Sandboxes by their ids, while the runtime tells of them."""
        self._mounted: list[nri_pb2.Container] = []
        self._later: set[asyncio.Task[None]] = set()
        self.connected = False

    async def run(self) -> None:
        """Connect, and connect anew when the runtime restarts, until cancelled."""
        logged = ""
        while True:
            try:
                await self._serve()
                logged = ""
            except (ApportionError, OSError) as error:
                if str(error) != logged:
                    _log.info("nri.not_connected", socket=str(self._socket), error=str(error))
                logged = str(error)
            finally:
                self.connected = False
            await self._sleep(_PAUSE)

    async def _serve(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        trunk = Trunk(reader, writer, self._call)
        serving = asyncio.create_task(trunk.run())
        try:
            hello = nri_pb2.RegisterPluginRequest(plugin_name="apportion", plugin_idx=_INDEX)
            await trunk.call(_RUNTIME, "RegisterPlugin", hello.SerializeToString())
            await serving
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError, ApportionError):
                await serving

    async def _call(self, method: str, message: bytes) -> bytes:
        match method:
            case "Configure":
                return nri_pb2.ConfigureResponse(events=_EVENTS).SerializeToString()
            case "Synchronize":
                return self._synchronize(nri_pb2.SynchronizeRequest.FromString(message))
            case "RunPodSandbox":
                await self._began(_sandbox(nri_pb2.PodRequest.FromString(message).pod))
            case "CreateContainer":
                asked = nri_pb2.CreateContainerRequest.FromString(message)
                await self._creating(_sandbox(asked.pod), _mounts(asked.container))
            case "StopPodSandbox":
                await self._ending(_sandbox(nri_pb2.PodRequest.FromString(message).pod))
            case "StateChange":
                await self._changed(nri_pb2.StateChangeEvent.FromString(message))
            case _:
                pass  # of another release; nothing that was subscribed to
        return b""

    def _synchronize(self, message: nri_pb2.SynchronizeRequest) -> bytes:
        self._found |= {pod.id: _sandbox(pod) for pod in message.pods}
        self._mounted += message.containers
        if not message.more:
            found, self._found = self._found, {}
            containers, self._mounted = self._mounted, []
            mounting = [
                (found[each.pod_sandbox_id], _mounts(each))
                for each in containers
                if each.pod_sandbox_id in found
            ]
            self.connected = True
            _log.info("nri.connected", socket=str(self._socket), pods=len(found))
            # The runtime waits for the answer, for two seconds; the interfaces of all pods may take longer.
            task = asyncio.create_task(self._compare([*found.values()], mounting))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        return nri_pb2.SynchronizeResponse(more=message.more).SerializeToString()

    async def _compare(self, found: Sequence[Sandbox], mounting: Sequence[Mounting]) -> None:
        try:
            await self._running(found, mounting)
        except NotReady as error:
            _log.warning("network.not_compared", error=str(error))

    async def _changed(self, message: nri_pb2.StateChangeEvent) -> None:
        """Take an event of a runtime whose interface has no calls of their own for sandboxes (NRI before 0.12)."""
        if message.event == nri_pb2.RUN_POD_SANDBOX:
            await self._began(_sandbox(message.pod))
        elif message.event == nri_pb2.STOP_POD_SANDBOX:
            await self._ending(_sandbox(message.pod))


def _mounts(container: nri_pb2.Container) -> set[str]:
    return {each.source for each in container.mounts}


def _sandbox(pod: nri_pb2.PodSandbox) -> Sandbox:
    networks = (space.path for space in pod.linux.namespaces if space.type == "network")
    return Sandbox(pod.uid, f"{pod.namespace}/{pod.name}", next(networks, ""))
