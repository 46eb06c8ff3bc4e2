"""Client: talk to the API server in plain decoded JSON.

In: kinds, names, bodies. Out: decoded objects, or an error of the tree in `errors.py`. kubeconfigs are read by
kubernetes_asyncio; its typed models are left out, because they cost ten times what decoding costs and its typed watch
does not know ResourceClaims (kubernetes_asyncio 36).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio.config.incluster_config import SERVICE_TOKEN_FILENAME

from apportion import metrics
from apportion.cluster.answer import Form, body_of, decoded, error_of, lines, watch_event
from apportion.cluster.credentials import Credentials, Reread
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.settings import proxy_of, require_a_file, settings_of
from apportion.errors import BrokenInput, Missing, Unanswered, Unreachable

Object = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_UNAUTHORIZED = 401
_WRITING = ("POST", "PUT", "PATCH")
_LIST_PATIENCE = 65.0
"""Seconds for a list: a big one may take as long as the server lets it (kube-apiserver --request-timeout, 60 s by default)."""
_SERVERS_SHARE = 0.8
"""Share of our patience after which the server gives up, so that its own answer can still arrive."""
_BUFFER = 2**21
"""Bytes that are read before the server has to wait."""


async def connect(
    kubeconfig: Path | None = None,
    *,
    context: str | None = None,
    patience: float = 10.0,
    manager: str = "apportion",
) -> "Client":
    """Make a client from a kubeconfig file, or from the pod's service account when there is none.

    `kubeconfig` may be several files in one text, as in the variable KUBECONFIG; `context` is one of theirs, default: the current one.
    `patience` (seconds) bounds every request but lists and watches, with its retries after 429; `manager` is the field manager
    of every write.
    Raises BrokenInput for a kubeconfig that is none, ApiError when there is no way to a server.
    """
    require_a_file(kubeconfig)
    settings = await settings_of(kubeconfig, context)
    settings.connection_pool_maxsize = 64
    token = Path(SERVICE_TOKEN_FILENAME) if kubeconfig is None else None
    reread = partial(settings_of, kubeconfig, context) if kubeconfig is not None else None
    try:
        return Client(settings, patience=patience, manager=manager, token=token, reread=reread)
    except BrokenInput as error:
        where = f"kubeconfig: {kubeconfig}" if kubeconfig is not None else "service account"
        raise BrokenInput(f"{where}: {error}") from None


class Client:
    """One connection pool to one API server, closed at the end of its `async with`."""

    def __init__(
        self,
        settings: kubernetes.Configuration,
        *,
        patience: float,
        manager: str,
        token: Path | None = None,
        reread: Reread | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`token`: the file of the pod's service account, which is read anew; `reread` reads a kubeconfig anew; neither: `settings` stay as they are."""
        self.settings = settings
        self.credentials = Credentials(settings, token, reread, clock=clock)
        # The session of kubernetes_asyncio reads .netrc and the environment in a thread for each request.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=settings.connection_pool_maxsize),
            proxy=proxy_of(settings),
            read_bufsize=_BUFFER,
        )
        self._patience = patience
        self._manager = manager

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "", **params: str) -> Object:
        """Read one object; raises Missing."""
        return await self._call("GET", kind.path(name, namespace=namespace), params=params)

    async def list(self, kind: ResourceKind, *, namespace: str = "", most: int = 0, **params: str) -> Object:
        """List a collection in one piece; returns the list object with `metadata` and `items`.

        Raises Oversized where the answer has more than `most` bytes; 0: as many as it has. Missing where the server serves neither version of the kind.
        """
        ask = partial(self._call, "GET", params=params, patience=_LIST_PATIENCE, form="list", most=most)
        *newer, last = kind.collections(namespace)
        for path in newer:
            with suppress(Missing):
                return await ask(path)
        return await ask(last)

    async def create(
        self, kind: ResourceKind, body: Object, *, namespace: str = "", under: str = "", **params: str
    ) -> Object:
        """Create an object, or `under` one (NAME/eviction) a subresource; raises Overtaken when the name is taken."""
        return await self._call(
            "POST",
            kind.path(under, namespace=namespace),
            body=body,
            params=params,
            form="outcome" if under else "object",
        )

    async def replace(self, kind: ResourceKind, name: str, body: Object, *, namespace: str = "") -> Object:
        """Replace an object; raises Overtaken when its resourceVersion is stale."""
        return await self._call("PUT", kind.path(name, namespace=namespace), body=body)

    async def patch(
        self,
        kind: ResourceKind,
        name: str,
        body: object,
        *,
        namespace: str = "",
        sub: str = "",
        how: str = MERGE,
    ) -> Object:
        """Patch an object. Put metadata.resourceVersion into a merge patch to fence it: stale raises Overtaken."""
        path = kind.path(name, namespace=namespace, sub=sub)
        return await self._call("PATCH", path, body=body, content=how)

    async def delete(
        self, kind: ResourceKind, name: str, *, namespace: str = "", uid: str = "", version: str = ""
    ) -> None:
        """Delete an object, if it still has this uid and resourceVersion; an absent one is fine."""
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        with suppress(Missing):
            await self._call("DELETE", kind.path(name, namespace=namespace), body=body, form="outcome")

    async def raw(self, path: str) -> Object:
        """Read any path, such as /version."""
        return await self._call("GET", path, form="any")

    async def watch(
        self,
        kind: ResourceKind,
        version: str,
        selectors: Mapping[str, str],
        seconds: int = 300,
    ) -> AsyncIterator[Object]:
        """Yield watch events (`type`, `object`) from a resourceVersion on, until the server ends the watch.

        The server ends it after `seconds`. Raises Expired when the version is too old, Unreachable when the connection breaks or stays silent.
        """
        query = {
            **selectors,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        *newer, last = kind.collections()
        for path in newer:
            with suppress(Missing):
                async for event in self._events(path, query):
                    yield event
                return
        async for event in self._events(last, query):
            yield event

    async def _events(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Object]:
        """Yield the events of one watch."""
        # Bookmarks come about once a minute: a longer silence is a dead connection.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._patience, sock_read=90)
        headers = await self._headers()
        try:
            async with self._session.get(
                f"{self.settings.host}{path}",
                params=query,
                headers=headers,
                timeout=limits,
                ssl=self.credentials.context,
            ) as response:
                if response.status == _UNAUTHORIZED and await self.credentials.renewed(headers):
                    raise Unreachable(f"watch of {path}: the token has ended")
                if response.status >= 400:
                    raise error_of("GET", path, response, await response.read(), "list")
                async for line in lines(response.content):
                    yield watch_event(path, line)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise Unreachable(f"watch of {path}: {type(error).__name__} {error}") from None

    async def _headers(self) -> dict[str, str]:
        own = {"Accept": "application/json", "User-Agent": self._manager}
        return own | await self.credentials.header()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        content: str = "application/json",
        params: Mapping[str, str] | None = None,
        patience: float = 0.0,
        form: Form = "object",
        most: int = 0,
    ) -> Object:
        """Make a request, again after a 429 as long as our patience lasts.

        Raises Unreachable when it was certainly not carried out, Unanswered when that is not known.
        """
        headers = await self._headers()
        query = dict(params or {})
        if method in _WRITING:
            query["fieldManager"] = self._manager
        if body is not None:
            headers["Content-Type"] = content
        data = orjson.dumps(body) if body is not None else None
        loop = asyncio.get_running_loop()
        until = loop.time() + (patience or self._patience)
        while True:
            left = until - (began := loop.time())
            query["timeout"] = f"{max(left * _SERVERS_SHARE, 0.001):.3f}s"
            try:
                async with (
                    asyncio.timeout_at(until),
                    self._session.request(
                        method,
                        f"{self.settings.host}{path}",
                        params=query,
                        data=data,
                        headers=headers,
                        ssl=self.credentials.context,
                    ) as response,
                ):
                    answer = await body_of(response, most)
            except aiohttp.ClientConnectorError as error:
                metrics.note_request(method, path, "unreachable", loop.time() - began)
                raise Unreachable(f"{method} {path}: {type(error).__name__} {error}") from None
            except (TimeoutError, aiohttp.ClientError) as error:
                metrics.note_request(method, path, "unanswered", loop.time() - began)
                raise Unanswered(f"{method} {path}: {type(error).__name__} {error}") from None
            metrics.note_request(method, path, str(response.status), loop.time() - began)
            if response.status < 400:
                return decoded(method, path, answer, form)
            if response.status == _UNAUTHORIZED and await self.credentials.renewed(headers):
                headers |= await self.credentials.header()
                continue
            refused = error_of(method, path, response, answer, form)
            wait = refused.retry_after if isinstance(refused, Unreachable) else 0.0
            if not wait or loop.time() + wait >= until:
                raise refused
            await asyncio.sleep(wait)
