"""One driver's two sockets: the plugin's, and the one by which kubelet finds it.

In: folders and handlers. Out: a running server pair. Order (K8S pluginwatcher README): the plugin's socket first, then the
registration socket appears in the folder that kubelet watches; on the way out the reverse, once the calls under way are answered.
"""

import asyncio
import hashlib
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
import structlog

from apportion.agent.kubelet.calls import Calls
from apportion.agent.kubelet.health import HealthFeed
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.kubelet.services import plugin_handlers, registration_handler
from apportion.errors import BrokenInput

LONGEST_PATH = 107
"""Bytes of a unix socket's path that grpc takes (`sun_path` less its final zero)."""
_SOCKET, _REGISTRATION = ".sock", "-reg.sock"
"""Ends of the sockets' names."""
_GRACE = 1.0
"""Seconds for answers and streams that are over to leave the servers."""
_log = structlog.get_logger()


class Plugin:
    """Serves one driver until stopped."""

    def __init__(
        self, preparer: Preparer, health: HealthFeed, *, plugins: Path, registry: Path, instance: str = ""
    ) -> None:
        """`instance` (the pod's UID) lets two agents of a rolling update serve side by side.

        Raises BrokenInput when a socket's path would be too long for a unix socket.
        """
        self.driver = preparer.driver
        self.preparer = preparer
        self._health = health
        self._calls = Calls()
        suffix = f"-{instance}" if instance else ""
        self.socket = _fit(plugins / self.driver, "dra", suffix, _SOCKET)
        self.registration = _fit(registry, self.driver, suffix, _REGISTRATION)
        self._servers: list[grpc.aio.Server] = []
        self.registered = asyncio.Event()
        """Set once kubelet reported that it registered the plugin."""

    async def start(self) -> None:
        """Serve both sockets. Sockets of killed agents are removed first: kubelet would go on trying them."""
        await asyncio.to_thread(_clear_dead, self.registration.parent, self.driver, _REGISTRATION)
        await asyncio.to_thread(_clear_dead, self.socket.parent, "dra", _SOCKET)
        await self._serve(self.socket, plugin_handlers(self.preparer, self._health, self._calls))
        info = registration_handler(self.driver, str(self.socket), self._notified)
        await self._serve(self.registration, (info,))
        _log.info("plugin.serving", driver=self.driver, socket=str(self.socket))

    async def when_registered(self, act: Callable[[str], None], patience: float) -> None:
        """Call `act` with the driver once kubelet has registered it, after `patience` seconds at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.registered.wait()
        if not self.registered.is_set():
            _log.warning("plugin.not_registered", driver=self.driver, waited=patience)
        act(self.driver)

    async def stop(self, seconds: float) -> None:
        """Begin no preparation, answer the calls under way for these seconds at most, deregister from kubelet, stop."""
        await self._calls.finish(seconds)
        self._health.close()
        for server in reversed(self._servers):
            await server.stop(_GRACE)
        self._servers.clear()
        for path in (self.registration, self.socket):
            _clear(path)

    async def _serve(self, path: Path, handlers: tuple[grpc.GenericRpcHandler, ...]) -> None:
        _clear(path)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(handlers)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)

    def _notified(self, registered: bool, error: str) -> None:  # noqa: FBT001 - the two fields of kubelet's message
        if registered:
            self.registered.set()
            _log.info("plugin.registered", driver=self.driver)
        else:
            _log.error("plugin.refused", driver=self.driver, error=error)


def _clear(path: Path) -> None:
    """Remove what is at a socket's path, such as the socket of a killed agent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _clear_dead(folder: Path, stem: str, end: str) -> None:
    """Remove sockets of our names that refuse connections; another agent of a rolling update accepts them."""
    for path in (*folder.glob(f"{stem}-*{end}"), *folder.glob(f"{_mark(stem)}*{end}")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
                _log.info("plugin.dead_socket_removed", socket=str(path))
            except OSError:
                continue


def _fit(folder: Path, stem: str, suffix: str, end: str) -> Path:
    """Return a socket's path, or a shorter one that begins with the mark of its stem."""
    path = folder / f"{stem}{suffix}{end}"
    short = folder / f"{_mark(stem)}{hashlib.sha256(path.name.encode()).hexdigest()[:10]}{end}"
    for each in (path, short):
        if len(str(each).encode()) <= LONGEST_PATH:
            return each
    raise BrokenInput(f"{path} is longer than the {LONGEST_PATH} bytes of a unix socket's path")


def _mark(stem: str) -> str:
    return hashlib.sha256(stem.encode()).hexdigest()[:6]
