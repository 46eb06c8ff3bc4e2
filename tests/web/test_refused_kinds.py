"""The page where the API server refuses to list what it needs: it says so, and goes on as soon as it may."""

import aiohttp
from aiohttp import web

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, PODS
from apportion.web.livecluster import LiveCluster
from apportion.web.pages import Pages
from apportion.web.replica import Replica
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.emptyserver import client, server

__all__ = ["client", "server"]


async def test_the_page_says_what_is_refused_until_it_is_not(server: ApiServer, client: Client) -> None:
    """A person who may see one namespace only: the reason was in the log alone, and the page said `Not yet` for ever."""
    refused = [f"/{NODES.plural}", f"/{PODS.plural}"]

    def fault(request: web.Request) -> web.Response | None:
        if any(request.path.endswith(each) for each in refused):
            return failed(403, f"{request.path[8:]} is forbidden: <b>you</b> cannot list it")
        return None

    server.fault = fault
    cluster = LiveCluster(client, "1.37", frozenset(), frozenset())
    app = web.Application()
    Pages(cluster, Replica(client, "apportion-system", "apportion-operator", ""), client).register(app)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session, beside(cluster.run()):

            async def shown() -> tuple[int, str]:
                async with session.get(f"http://{host}:{port}/") as answer:
                    return answer.status, await answer.text()

            words = (
                "not listed yet: nodes, pods; the API server refuses 2 of these kinds: GET /api/v1/nodes: 403"
            )
            status, text = await eventually(shown, lambda found: words in found[1])
            assert status == 503
            assert "nodes is forbidden: &lt;b&gt;you&lt;/b&gt; cannot list it" in text
            refused.clear()
            await eventually(shown, lambda found: found[0] == 200)
    finally:
        await runner.cleanup()
