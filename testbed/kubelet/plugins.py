"""All plugins of one node.

In: the registration folder. Out: a plugin per driver; `wipe` is called for drivers whose plugins are gone.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from testbed.kubelet.plugin import Plugin, PluginError

_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)

Wipe = Callable[[str], Awaitable[bool]]


class Plugins:
    """Follows `folder` for sockets, as the kubelet's plugin watcher does.

    A driver whose last plugin deregistered or lost its connection gets `wipe(driver)` after `wiping_delay` seconds, until
    it returns true.
    """

    def __init__(self, folder: Path, *, wipe: Wipe, wiping_delay: float, changed: Callable[[], None]) -> None:
        self._folder = folder
        self._wipe = wipe
        self._wiping_delay = wiping_delay
        self._changed = changed
        self._registered: dict[Path, tuple[tuple[int, int], Plugin, asyncio.Task[None]]] = {}
        self._failed: dict[Path, tuple[tuple[int, int], float]] = {}
        self._lost: dict[str, float] = {}
        self._wake = asyncio.Event()
        self.errors: list[str] = []

    def of(self, driver: str) -> Plugin:
        """Return the driver's plugin: connected ones first, then the one that registered last.

        Raises PluginError when no plugin of this driver is registered.
        """
        plugins = [plugin for _, plugin, _ in self._registered.values() if plugin.driver == driver]
        if not plugins:
            raise PluginError(f"DRA driver {driver} is not registered")
        return next((plugin for plugin in reversed(plugins) if plugin.connected), plugins[-1])

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers whose plugin is registered and connected now."""
        return frozenset(plugin.driver for _, plugin, _ in self._registered.values() if plugin.connected)

    async def run(self) -> None:
        """Follow the folder until cancelled, then drop every connection."""
        try:
            while True:
                await self._look()
                await self._wipe_the_lost()
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    continue
                self._wake.clear()
        finally:
            for path in list(self._registered):
                await self._forget(path)

    async def _look(self) -> None:
        present = _sockets(self._folder)
        for path in list(self._registered):
            if present.get(path) != self._registered[path][0]:
                await self._forget(path)
                self._changed()
        for path, identity in present.items():
            failed = self._failed.get(path)
            if failed is not None and failed[0] == identity and time.monotonic() < failed[1]:
                continue
            if path not in self._registered:
                await self._register(path, identity)

    async def _register(self, path: Path, identity: tuple[int, int]) -> None:
        try:
            plugin = await Plugin.register(path)
        except PluginError as error:
            self._failed[path] = (identity, time.monotonic() + _RETRY_SECONDS)
            self.errors.append(str(error))
            _log.info("registration failed: %s", error)
            return
        self._failed.pop(path, None)
        task = asyncio.create_task(plugin.follow(self._wake))
        self._registered[path] = (identity, plugin, task)
        self._changed()

    async def _forget(self, path: Path) -> None:
        _, plugin, task = self._registered.pop(path)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await plugin.close()
        self._lost.setdefault(plugin.driver, time.monotonic())

    async def _wipe_the_lost(self) -> None:
        now = time.monotonic()
        connected = self.drivers
        for _, plugin, _ in self._registered.values():
            if plugin.driver not in connected:
                self._lost.setdefault(plugin.driver, now)
        for driver, since in list(self._lost.items()):
            if driver in connected:
                del self._lost[driver]
                self._changed()
            elif now - since >= self._wiping_delay and await self._wipe(driver):
                # Only once; a plugin that registers and leaves again starts the clock anew.
                self._lost[driver] = float("inf")


def _sockets(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the visible sockets with inode and modification time, which identify a new socket under an old name (a later chmod changes neither)."""
    found: dict[Path, tuple[int, int]] = {}
    for path in sorted(folder.iterdir()):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_socket() and not path.name.startswith("."):
            found[path] = (status.st_ino, status.st_mtime_ns)
    return found
