"""Probes: what kubelet and Prometheus may ask of a process, over HTTP, on all addresses of its pod.

/healthz: it lives. /readyz: it is ready. Each answers "ok", or 503 and what is wrong. /metrics: Prometheus' text.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from apportion.errors import ApportionError

Probe = Callable[[], str | None]
"""Returns what is wrong, None when all is well."""


class Probes:
    """A small HTTP server."""

    def __init__(
        self,
        port: int,
        *,
        ready: Probe,
        alive: Probe = lambda: None,
        registry: CollectorRegistry = REGISTRY,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`port` 0 starts nothing; `registry` holds the metrics; `refresh` computes what is computed for each answer of /metrics, which any thread may read then."""
        self._port = port
        app = web.Application()
        app.router.add_get("/healthz", _answer(alive))
        app.router.add_get("/readyz", _answer(ready))
        app.router.add_get("/metrics", self._metrics)
        self._registry = registry
        self._refresh = refresh
        self._one_at_a_time = asyncio.Lock()
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self) -> None:
        """Listen. Raises ApportionError where the port cannot be had."""
        if not self._port:
            return
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, port=self._port).start()
        except OSError as error:
            raise ApportionError(
                f"--health-port: port {self._port}: {os.strerror(error.errno or 0)}"
            ) from None

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        if self._refresh is None:
            text = generate_latest(self._registry)
        else:
            # What was computed is frozen. Its text may have thousands of lines, and several threads at once would leave the event loop too little.
            async with self._one_at_a_time:
                await self._refresh()
                text = await asyncio.to_thread(generate_latest, self._registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(probe: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        wrong = probe()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer
