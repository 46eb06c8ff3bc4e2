"""The process of the page: watches, the Lease, and a server on the loopback addresses.

In: settings. Out: it serves until it is stopped. Raises ApportionError where it cannot begin: the cluster cannot be read, the port is taken.
"""

import asyncio
import errno
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web

from apportion.cluster.client import connect
from apportion.cluster.serverversion import require_version
from apportion.errors import ApportionError
from apportion.web.livecluster import LiveCluster
from apportion.web.memory import MemoryLimit
from apportion.web.pages import Pages
from apportion.web.protection import protection
from apportion.web.replica import Replica

_GRACE = 1.0
"""Seconds that answers under way have when the page is stopped."""
_ADDRESSES = ("127.0.0.1", "::1")
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PageSettings:
    """What the page needs to know."""

    port: int
    hosts: frozenset[str] = frozenset()
    """Host names beside the loopback ones by which it may be asked for, as an authenticating proxy does."""
    kubeconfig: Path | None = None
    context: str | None = None
    """Of the kubeconfig; None: its current one."""
    namespace: str = "apportion-system"
    """Of the operator's Lease."""
    lease: str = "apportion-operator"
    replica: str = ""
    """Identity of the operator beside which it runs; empty: a person runs it."""
    schedulers: frozenset[str] = frozenset()
    drivers: frozenset[str] = frozenset()
    memory: int | None = None
    """Bytes that the process may take; None: as many as there are."""


async def serve(settings: PageSettings, stop: asyncio.Event) -> None:
    """Serve the page until `stop` is set. Raises ShortOfMemory when the cluster does not fit."""
    memory = MemoryLimit(settings.memory)
    memory.set()
    async with await connect(
        settings.kubeconfig, context=settings.context, manager="apportion-web"
    ) as client:
        major, minor = await require_version(client)
        cluster = LiveCluster(client, f"{major}.{minor}", settings.schedulers, settings.drivers, memory)
        replica = Replica(client, settings.namespace, settings.lease, settings.replica)
        app = web.Application(middlewares=[protection(settings.hosts)])
        Pages(cluster, replica, client).register(app)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_GRACE)
        await runner.setup()
        try:
            await _listen(runner, settings.port)
            tasks = [asyncio.ensure_future(each.run()) for each in (cluster, replica)]
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, stopped):
                task.cancel()
            await asyncio.wait((*tasks, stopped))
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    task.result()
        finally:
            await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> None:
    """Listen on the loopback addresses that this machine has, and on no other."""
    for address in _ADDRESSES:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            missing = error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
            if address != _ADDRESSES[0] and missing:
                continue
            raise ApportionError(f"--web-port: {address} port {port}: {error.strerror}") from None
    _log.info("web.serving", url=f"http://localhost:{port}/")
