"""Health: what probes and Prometheus may ask, over HTTP.

/healthz: the process acts, or is allowed to wait. /readyz: every kind was listed. /metrics: Prometheus text.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

Probe = Callable[[], str | None]
"""Returns what is wrong, None when all is well."""


class Health:
    """A small HTTP server."""

    def __init__(
        self, port: int, *, alive: Probe, ready: Probe, refresh: Callable[[], Awaitable[None]]
    ) -> None:
        """`port` 0 starts nothing; `refresh` computes what is computed for each answer of /metrics."""
        self._port = port
        app = web.Application()
        app.router.add_get("/healthz", _probe(alive))
        app.router.add_get("/readyz", _probe(ready))
        app.router.add_get("/metrics", _metrics(refresh))
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self) -> None:
        """Listen on all addresses."""
        if self._port:
            await self._runner.setup()
            await web.TCPSite(self._runner, port=self._port).start()

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()


def _probe(probe: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        wrong = probe()
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    return answer


def _metrics(refresh: Callable[[], Awaitable[None]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        await refresh()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer
