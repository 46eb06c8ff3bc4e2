"""Pages: what each address shows.

In: requests. Out: HTML made from answers about the cluster; a wrong address is answered with a page that says what is wrong with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from apportion import __version__
from apportion.cli.answers.story import What
from apportion.cluster.client import Client
from apportion.web.eventlog import event_log
from apportion.web.livecluster import BusyError, LiveCluster, NotListedError
from apportion.web.map import map_page, node_rows
from apportion.web.memory import ShortOfMemory
from apportion.web.observed import Observed
from apportion.web.protection import Handler
from apportion.web.render import html
from apportion.web.replica import Replica
from apportion.web.search import search
from apportion.web.storypage import story_page
from apportion.web.waiting import queue_page

_STATIC = Path(__file__).with_name("static")
_FILES: Mapping[str, str] = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_MOST_PAGE = 1_000_000
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pages:
    """Handlers of all addresses."""

    cluster: LiveCluster
    replica: Replica
    client: Client

    def register(self, app: web.Application) -> None:
        """Add the addresses."""
        app.middlewares.append(self._errors())
        app.router.add_get("/", self.map)
        app.router.add_get("/nodes/{name}", self.node)
        app.router.add_get("/queue", self.queue)
        app.router.add_get("/free", self.free)
        app.router.add_get("/search", self.search)
        app.router.add_get("/claims/{namespace}/{name}", self.claim)
        app.router.add_get("/pods/{namespace}/{name}", self.pod)
        for name, kind in _FILES.items():
            app.router.add_get(f"/static/{name}", _file((_STATIC / name).read_bytes(), kind))

    async def map(self, request: web.Request) -> web.Response:
        """Nodes and their cards."""
        number = _page(request)
        found = await self.cluster.ask(lambda observed: map_page(observed, number))
        return self._html("map.html", page="map", found=found)

    async def node(self, request: web.Request) -> web.Response:
        """One node."""
        name = request.match_info["name"]

        def rows(observed: Observed) -> Any:
            known = observed.snapshot.node(name) is not None or name in observed.nodes()
            return node_rows(observed, (name,)) if known else None

        found = await self.cluster.ask(rows)
        if found is None:
            raise web.HTTPNotFound(text=f"There is no node {name}.")
        return self._html("node.html", page="", node=found[0])

    async def queue(self, request: web.Request) -> web.Response:
        """What waits, and why."""
        number = _page(request)
        found = await self.cluster.ask(lambda observed: queue_page(observed, number))
        return self._html("queue.html", page="queue", found=found)

    async def free(self, _: web.Request) -> web.Response:
        """What is left."""
        found, holds = await self.cluster.ask(lambda observed: (observed.left(), observed.holds()))
        return self._html("free.html", page="free", found=found, holds=holds)

    async def search(self, request: web.Request) -> web.Response:
        """Objects by a part of their names."""
        text = request.query.get("q", "")
        found = await self.cluster.ask(lambda observed: search(observed, text))
        return self._html("search.html", page="search", found=found, text=text)

    async def claim(self, request: web.Request) -> web.Response:
        """One claim's story."""
        return await self._story(request, What.CLAIM)

    async def pod(self, request: web.Request) -> web.Response:
        """One pod's story."""
        return await self._story(request, What.POD)

    async def _story(self, request: web.Request, what: What) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = await self.cluster.ask(
            lambda observed: story_page(observed, what, namespace, name, monotonic)
        )
        if found is None:
            raise web.HTTPNotFound(text=f"There is no {what.value} {namespace}/{name}.")
        events = await event_log(self.client, namespace, found.objects)
        return self._html("story.html", page="", found=found, events=events)

    def _html(self, template: str, *, page: str, status: int = 200, **shown: Any) -> web.Response:
        text = html(
            template,
            page=page,
            age=self.cluster.age(),
            replica=self.replica.identity,
            leader=self.replica.leader,
            version=__version__,
            **{"text": "", **shown},
        )
        return web.Response(text=text, status=status, content_type="text/html")

    def _errors(self) -> Middleware:
        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                return await handler(request)
            except web.HTTPException as error:
                text = error.text or error.reason
                return self._error(error.status, error.reason, text)
            except (NotListedError, BusyError, ShortOfMemory) as error:
                made = self._error(503, "Not yet", f"{error}. This page tries by itself until it can answer.")
                made.headers["Retry-After"] = "2"
                return made
            except Exception:  # noqa: BLE001 - one page that fails must not end the others
                _log.exception("web.failed", path=request.path)
                text = "The page failed to answer, which is a defect of its own; the log says more."
                return self._error(500, "Defect", text)

        return answer

    def _error(self, status: int, title: str, message: str) -> web.Response:
        return self._html("error.html", page="", status=status, title=title, message=message)


def _page(request: web.Request) -> int:
    text = request.query.get("page", "1")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_PAGE))):
        raise web.HTTPBadRequest(text="page: expected a number from 1 on.")
    return int(text)


def _file(content: bytes, kind: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=content, content_type=kind, charset="utf-8")

    return answer
