"""ApiServer: an API server in memory, which can be told to fail in ways in which a real one cannot be made to fail.

In: objects, faults. Out: lists in pages, watches with bookmarks, writes with resourceVersion preconditions, over HTTP, as
kube-apiserver answers them. It stands below the product's client, and can run in a thread of its own.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.cluster.kinds import (
    CLAIMS,
    CLASSES,
    DEFRAGS,
    EVENTS,
    LAYOUTS,
    LEASES,
    NAMESPACES,
    NODES,
    PARTITIONS,
    POD_GROUPS,
    PODS,
    POLICIES,
    QUOTAS,
    SLICES,
    STORAGE_CLASSES,
    TAINT_RULES,
    VOLUME_CLAIMS,
    VOLUMES,
    ResourceKind,
)
from testbed.eventually import eventually
from testbed.ports import free_ports
from tests.cluster.discovery import served

Json = dict[str, Any]
Backup = tuple[int, dict[ResourceKind, dict[str, Json]]]
Fault = Callable[[web.Request], web.Response | None]
KINDS = (
    CLAIMS, CLASSES, EVENTS, LAYOUTS, LEASES, NAMESPACES, NODES, PARTITIONS, PODS, POD_GROUPS, POLICIES, QUOTAS, DEFRAGS, SLICES,
    STORAGE_CLASSES, TAINT_RULES, VOLUME_CLAIMS, VOLUMES,
)  # fmt: skip


class ApiServer:
    """Objects by collection and name; `revision` is etcd's."""

    def __init__(self) -> None:
        self.revision = 100
        self.unserved: set[ResourceKind] = set()
        """Kinds that answer 404."""
        self.fault: Fault = lambda _: None
        """Answers a request in the server's place."""
        self.requests: list[tuple[str, str]] = []
        """Method and path with query of each request."""
        self.replayed: list[tuple[str, Json]] = []
        """Events, of whatever version, with which the next watch begins."""
        self.slow = 0.0
        """Seconds before each answer to a write."""
        self._objects: dict[ResourceKind, dict[str, Json]] = {kind: {} for kind in KINDS}
        self._log: list[tuple[int, ResourceKind, str, Json]] = []
        self._changed = asyncio.Event()
        self._watches = 0
        self._watched: set[ResourceKind] = set()
        self._hung: dict[ResourceKind, int] = {}
        """By kind: the number of its last watch that says nothing more."""
        self._epoch = 0
        """Grows when all watches end."""
        [self.port] = free_ports(1)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["ApiServer"]:
        """Listen."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield self
        finally:
            self.end_watches()
            await runner.cleanup()

    def client(self, *, patience: float = 5.0) -> Client:
        """Return a client of this server."""
        settings = Configuration(host=f"http://127.0.0.1:{self.port}")
        return Client(settings, patience=patience, manager="apportion-operator")

    def put(self, kind: ResourceKind, raw: Json) -> Json:
        """Create or replace an object."""
        metadata = raw["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        known = key in self._objects[kind]
        self.revision += 1
        stored = copy.deepcopy(raw)
        own = {
            "uid": metadata.get("uid") or f"uid-{kind.plural}-{key}",
            "resourceVersion": str(self.revision),
        }
        stored["metadata"] |= own
        stored["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self._objects[kind][key] = stored
        self._tell(kind, "MODIFIED" if known else "ADDED", stored)
        return copy.deepcopy(stored)

    def drop(self, kind: ResourceKind, name: str, namespace: str = "") -> None:
        """Have an object gone."""
        self.revision += 1
        gone = self._objects[kind].pop(f"{namespace}/{name}")
        gone["metadata"]["resourceVersion"] = str(self.revision)
        self._tell(kind, "DELETED", gone)

    def delete(self, kind: ResourceKind, name: str, namespace: str = "") -> None:
        """Delete an object as somebody with the right to: one with finalizers stays, in deletion, until they are gone."""
        found = self.get(kind, name, namespace)
        if found["metadata"].get("finalizers"):
            self.put(kind, _merged(found, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
        else:
            self.drop(kind, name, namespace)

    def get(self, kind: ResourceKind, name: str, namespace: str = "") -> Json:
        """Return an object as it is stored."""
        return self._objects[kind][f"{namespace}/{name}"]

    def all(self, kind: ResourceKind) -> list[Json]:
        """Return the objects of a kind."""
        return list(self._objects[kind].values())

    def restore(self, backup: Backup, *, watches_end: bool = True) -> None:
        """Return to a former state, as etcd does from a backup; `watches_end`: their connections end."""
        self.revision, objects = backup
        self._objects = copy.deepcopy(objects)
        self._log.clear()
        if watches_end:
            self.end_watches()

    async def hang(self, kind: ResourceKind) -> None:
        """Wait until a kind is watched, and let its open watches say nothing more; later ones work."""

        async def is_watched() -> bool:
            return kind in self._watched

        await eventually(is_watched)
        self._hung[kind] = self._watches

    def end_watches(self) -> None:
        """End all open watches."""
        self._epoch += 1
        self._wake()

    def backup(self) -> Backup:
        """Return the state."""
        return self.revision, copy.deepcopy(self._objects)

    def _tell(self, kind: ResourceKind, change: str, raw: Json) -> None:
        self._log.append((self.revision, kind, change, copy.deepcopy(raw)))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, str(request.rel_url)))
        answer = self.fault(request)
        if answer is not None:
            return answer
        for kind in KINDS:
            prefix = kind.path()
            whole = prefix.removesuffix(kind.plural)
            if not request.path.startswith(whole):
                continue
            parts = request.path.removeprefix(whole).split("/")
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            if parts[0] == kind.plural and kind not in self.unserved:
                return await self._serve(request, kind, namespace, *parts[1:])
        said = served(request.path, KINDS, self.unserved)
        return web.json_response(said) if said else failed(404, f"{request.path}: not served")

    async def _serve(
        self, request: web.Request, kind: ResourceKind, namespace: str, name: str = "", _sub: str = ""
    ) -> web.StreamResponse:
        key = f"{namespace}/{name}"
        objects = self._objects[kind]
        if request.method == "GET" and not name:
            if request.query.get("watch"):
                return await self._watch(request, kind)
            return self._list(request, kind)
        if request.method != "GET":
            await asyncio.sleep(self.slow)
        if request.method == "POST":
            body = await request.json()
            if f"{namespace}/{body['metadata']['name']}" in objects:
                return failed(409, "already exists")
            return web.json_response(self.put(kind, body))
        if key not in objects:
            return failed(404, f"{kind.plural} {key} not found")
        found = objects[key]
        if request.method == "GET":
            return web.json_response(found)
        body = await request.json()
        if request.method == "DELETE":
            self.delete(kind, name, namespace)
            return web.json_response({"metadata": {}})
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted not in (None, found["metadata"]["resourceVersion"]):
            return failed(409, "the object has been modified")
        made = self.put(kind, body if request.method == "PUT" else _merged(found, body))
        if made["metadata"].get("deletionTimestamp") and not made["metadata"].get("finalizers"):
            self.drop(kind, name, namespace)
        return web.json_response(made)

    def _list(self, request: web.Request, kind: ResourceKind) -> web.Response:
        selected = [pair.split("=") for pair in request.query.get("fieldSelector", "").split(",") if pair]
        rows = [
            raw for raw in self.all(kind) if all(_field(raw, path) == wanted for path, wanted in selected)
        ]
        rows.sort(key=lambda raw: str(raw["metadata"]["uid"]))
        begin, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 10**9)
        end = begin + limit
        metadata = {"resourceVersion": str(self.revision)}
        if end < len(rows):
            metadata["continue"] = str(end)
        names = {"kind": f"{kind.name}List", "apiVersion": kind.api_version}
        return web.json_response({**names, "metadata": metadata, "items": rows[begin:end]})

    async def _watch(self, request: web.Request, kind: ResourceKind) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query.get("timeoutSeconds") or 300)
        bookmark = end - 2
        stream = web.StreamResponse()
        await stream.prepare(request)
        while self.replayed:
            await stream.write(_line(*self.replayed.pop(0)))
        # As kube-apiserver 1.37 does: a watch from a version that is not reached says nothing until it is.
        sent, epoch = int(request.query["resourceVersion"]), self._epoch
        number = self._watches = self._watches + 1
        self._watched.add(kind)
        while loop.time() < end and self._epoch == epoch and kind not in self.unserved and _open(request):
            changed = self._changed
            if number > self._hung.get(kind, 0):
                for revision, of, change, raw in list(self._log):
                    if of == kind and revision > sent:
                        await stream.write(_line(change, raw))
                sent = max(sent, self.revision)
                if loop.time() >= bookmark and sent == self.revision:
                    bookmark = end
                    await stream.write(_line("BOOKMARK", {"metadata": {"resourceVersion": str(sent)}}))
            try:
                async with asyncio.timeout_at(min(bookmark, end)):
                    await changed.wait()
            except TimeoutError:
                continue
        return stream


def failed(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return an answer that refuses."""
    said = {"kind": "Status", "code": status, "message": message}
    return web.json_response(said, status=status, headers=headers)


def _field(raw: Json, path: str) -> str:
    """Return the field of an object that a field selector names."""
    found: Any = raw
    for part in path.split("."):
        found = found.get(part) or {}
    return found or ""


def _open(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def _line(change: str, raw: Json) -> bytes:
    return orjson.dumps({"type": change, "object": raw}) + b"\n"


def _merged(old: Any, patch: Any) -> Any:
    """Return the result of a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
