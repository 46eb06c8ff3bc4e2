"""The agent's small web page: /healthz, /readyz and /metrics.

In: what is ready. Out: answers for probes and Prometheus.
"""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest


async def serve(port: int, ready: Callable[[], bool], registry: CollectorRegistry) -> web.AppRunner:
    """Serve on all addresses of the pod; returns the runner, which the caller cleans up."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def is_ready(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if ready() else web.Response(status=503, text="starting\n")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    app = web.Application()
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", is_ready)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
