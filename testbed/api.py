"""A small client of the API server: paths and plain dicts in, plain dicts out.

It shares no code with the product, so that tests read the API independently of it.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp
import orjson

from testbed import kubeconfig
from testbed.errors import ApiError

type_of_patch = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
Patch = Literal["merge", "json", "strategic", "apply"]
Json = dict[str, Any]

_PAGE = 500
_WATCH_SECONDS = 300
_LONGEST_LINE = 16 << 20
_INITIALIZING = b"storage is (re)initializing"
"""In a refusal (429): the API server has just begun to serve a kind, as that of a new CustomResourceDefinition. Its other clients ask once more, too."""
_INITIALIZED_WITHIN = 60.0
_LOOK_SECONDS = 0.1


class Api:
    """One user's connection to the API server. Use it as an async context manager."""

    def __init__(self, access: kubeconfig.Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the client of a kubeconfig that a ControlPlane wrote."""
        return cls(kubeconfig.read(path))

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        context = ssl.create_default_context(cafile=str(self._access.authority))
        if self._access.certificate is not None:
            context.load_cert_chain(self._access.certificate, self._access.key)
        headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        self._session = aiohttp.ClientSession(
            base_url=self._access.server,
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
            read_bufsize=_LONGEST_LINE,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, **parameters: str) -> Json:
        """Read an object, or one page of a list. Raises ApiError."""
        return await self._ask("GET", path, parameters=parameters)

    async def find(self, path: str) -> Json | None:
        """Read an object; None when there is none. Raises ApiError."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def text(self, path: str) -> str:
        """Read something that is not JSON (`/readyz`, `/metrics`). Raises ApiError."""
        async with self._pool.get(path) as response:
            body = await response.text()
            if response.status != 200:
                raise ApiError(response.status, response.reason or "", body, request=f"GET {path}")
            return body

    async def items(self, path: str, **parameters: str) -> tuple[list[Json], str]:
        """Read a whole list, page by page: its objects and its resourceVersion. Raises ApiError."""
        objects: list[Json] = []
        while True:
            page = await self.get(path, limit=str(_PAGE), **parameters)
            objects += page["items"]
            parameters["continue"] = page["metadata"].get("continue", "")
            if not parameters["continue"]:
                return objects, page["metadata"]["resourceVersion"]

    async def create(self, path: str, body: Mapping[str, Any], **parameters: str) -> Json:
        """POST an object to its collection (or subresource). Raises ApiError."""
        return await self._ask("POST", path, body=body, parameters=parameters)

    async def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """PUT a whole object; a resourceVersion in it is a precondition. Raises ApiError."""
        return await self._ask("PUT", path, body=body)

    async def patch(self, path: str, body: object, how: Patch = "merge", **parameters: str) -> Json:
        """PATCH an object; `apply` is server-side apply and needs `fieldManager`. Raises ApiError."""
        return await self._ask("PATCH", path, body=body, content=type_of_patch[how], parameters=parameters)

    async def delete(self, path: str, *, grace: int | None = None, uid: str | None = None) -> None:
        """Delete an object. That it is gone already is success.

        `grace` is in seconds; with `uid` only that very object is deleted (else ApiError 409).
        """
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self._ask("DELETE", path, body=body)
        except ApiError as error:
            if error.status != 404:
                raise

    async def delete_all(self, path: str, **parameters: str) -> None:
        """Delete the objects of a collection, those that `fieldSelector` or `labelSelector` chooses. Raises ApiError."""
        await self._ask("DELETE", path, parameters=parameters)

    async def watch(self, path: str, version: str, **parameters: str) -> AsyncIterator[tuple[str, Json]]:
        """Yield (`ADDED` | `MODIFIED` | `DELETED` | `BOOKMARK`, object) from that resourceVersion on.

        Ends when the server closes the stream, which it does every few minutes. Raises ApiError, with status 410
        when the version is too old: list again.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
            **parameters,
        }
        endless = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self._pool.get(path, params=query, timeout=endless) as response:
            if response.status != 200:
                raise _refusal(response.status, await response.read(), f"WATCH {path}")
            async for line in response.content:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(
                        status.get("code", 500),
                        status.get("reason", ""),
                        status.get("message", ""),
                        request=f"WATCH {path}",
                    )
                yield event["type"], event["object"]

    @property
    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("an Api is used inside `async with`")
        return self._session

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content: str = "application/json",
        parameters: Mapping[str, str] | None = None,
    ) -> Json:
        data = None if body is None else orjson.dumps(body)
        until = time.monotonic() + _INITIALIZED_WITHIN
        while True:
            async with self._pool.request(
                method, path, data=data, params=parameters or None, headers={"Content-Type": content}
            ) as response:
                answer = await response.read()
            if response.status < 400:
                decoded: Json = orjson.loads(answer)
                return decoded
            refusal = _refusal(response.status, answer, f"{method} {path}")
            if _INITIALIZING not in answer or time.monotonic() > until:
                raise refusal
            await asyncio.sleep(_LOOK_SECONDS)


def _refusal(status: int, answer: bytes, request: str) -> ApiError:
    try:
        said: Json = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return ApiError(status, "", answer.decode(errors="replace"), request=request)
    return ApiError(status, said.get("reason", ""), said.get("message", ""), request=request)
