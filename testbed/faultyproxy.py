"""FaultyProxy: a proxy before a real API server whose requests and answers are late, lost or wrong by rules.

In: the kubeconfig of the API server, rules, a seed. Out: an address that the operator is pointed at, and how often each
fault happened. A bearer token is handed on; a request without one is made with the kubeconfig's own client certificate.
"""

import asyncio
import random
import re
import ssl
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import orjson
from aiohttp import web

from testbed import kubeconfig
from testbed.api import Json

_OF_ONE_CONNECTION = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "transfer-encoding",
    ]
)
"""Headers that are not handed on: they say how a body is sent, and bodies are handed on uncompressed."""
_LONGEST_LINE = 64 << 20
_MOST_REMEMBERED = 20
"""Watch events of one path and selector that can be sent again, and reads whose answers can be given again."""


class Fault(StrEnum):
    """What goes wrong with one exchange."""

    HOLD_REQUEST = "the request is handed on late, even when the client has given up"
    DROP_REQUEST = "the connection breaks, and the request is never handed on"
    THROTTLE = "429 with Retry-After, and the request is never handed on"
    EXPIRE = "410, and the request is never handed on"
    HOLD_ANSWER = "the answer comes late"
    LOSE_ANSWER = "the connection breaks after the request was carried out"
    FAIL = "500 after the request was carried out"
    GARBLE = "200 and what a gateway says, a page or JSON, after the request was carried out"
    STALE = "a read is answered as the same read was answered before"
    CUT = "a watch breaks after its next event"
    REPLAY = "a watch begins with its last events since the last list once more, in any order"
    END = "a watch ends with an ERROR event that says 410 after its next event"


_OF_WATCHES = (Fault.CUT, Fault.REPLAY, Fault.END)
_OF_OTHERS = (Fault.HOLD_ANSWER, Fault.LOSE_ANSWER, Fault.FAIL, Fault.GARBLE, Fault.STALE)
"""Faults of answers that end: they never happen to a watch."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Which exchanges a fault happens to."""

    fault: Fault
    method: str = ""
    """GET, PATCH, ...; empty: any."""
    path: str = ""
    """Regular expression that is searched in path and query; empty: any."""
    chance: float = 1.0
    """Share of these exchanges."""
    times: int | None = None
    """How often at most; None: always."""
    seconds: float = 10.0
    """For how long request or answer are held, unless `let_go` is called; the Retry-After of a 429."""


class FaultyProxy:
    """`async with FaultyProxy(kubeconfig) as proxy:` serves on a loopback port until the end.

    `rules` are looked at in order, for every exchange anew. `faults` counts what happened: a fault that was drawn does not where another one
    came before it, where a watch broke before its next event, or where nothing is known that could be shown again.
    """

    def __init__(self, source: Path, rules: Iterable[Rule] = (), *, seed: int = 0) -> None:
        self.rules = list(rules)
        self.faults: Counter[Fault] = Counter()
        self.requests: list[str] = []
        """Method and path of every request that was handed on."""
        self.answered: list[str] = []
        """The same, of those that the server has answered to the end."""
        self.server = ""
        self._access = kubeconfig.read(source)
        self._random = random.Random(seed)  # noqa: S311 - faults are drawn, not secrets
        self._used: Counter[Rule] = Counter()
        self._go = asyncio.Event()
        self._whole = asyncio.Event()
        self._whole.set()
        self._events: dict[str, deque[bytes]] = {}
        self._answers: dict[str, tuple[int, bytes]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        self._certified = await self._stack.enter_async_context(self._session(certified=True))
        self._bare = await self._stack.enter_async_context(self._session(certified=False))
        runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0]
        self.server = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go what is held, and end all connections."""
        self.let_go()
        self.heal()
        await self._stack.aclose()

    def kubeconfig(self, path: Path, user: Path | None = None) -> Path:
        """Write a kubeconfig that leads through the proxy, with the token of the user's kubeconfig or of the source, if any."""
        access = kubeconfig.read(user) if user is not None else self._access
        return replace(access, server=self.server, certificate=None, key=None).write(path)

    def let_go(self) -> None:
        """Hand on every request and answer that is held now."""
        self._go.set()
        self._go = asyncio.Event()

    def part(self) -> None:
        """Let nothing through until `heal`, in neither direction: what is sent meanwhile is lost, and nobody is told."""
        self._whole.clear()

    def heal(self) -> None:
        """Let everything through again; connections that were used meanwhile break."""
        self._whole.set()

    def _session(self, *, certified: bool) -> aiohttp.ClientSession:
        context = ssl.create_default_context(cafile=str(self._access.authority))
        if certified and self._access.certificate is not None:
            context.load_cert_chain(self._access.certificate, self._access.key)
        return aiohttp.ClientSession(
            base_url=self._access.server,
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            read_bufsize=_LONGEST_LINE,
        )

    def _drawn(self, request: web.BaseRequest) -> dict[Fault, Rule]:
        drawn: dict[Fault, Rule] = {}
        for rule in self.rules:
            if rule.method not in ("", request.method) or not re.search(rule.path, request.path_qs):
                continue
            if rule.fault in (_OF_OTHERS if _is_watch(request) else _OF_WATCHES):
                continue
            if rule.times is not None and self._used[rule] >= rule.times:
                continue
            if rule.fault not in drawn and self._random.random() < rule.chance:
                drawn[rule.fault] = rule
                self._used[rule] += 1
        return drawn

    def _happens(self, fault: Fault, drawn: Mapping[Fault, Rule]) -> bool:
        """Say whether a fault was drawn, and count it if so."""
        if fault in drawn:
            self.faults[fault] += 1
        return fault in drawn

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        drawn = self._drawn(request)
        body = await request.read()
        await self._hold(Fault.HOLD_REQUEST, drawn)
        if self._happens(Fault.DROP_REQUEST, drawn) or await self._lost():
            return _broken(request)
        if self._happens(Fault.THROTTLE, drawn):
            seconds = f"{drawn[Fault.THROTTLE].seconds:.0f}"
            return _status(429, "TooManyRequests", {"Retry-After": seconds})
        if self._happens(Fault.EXPIRE, drawn):
            return _status(410, "Expired")
        what = f"{request.method} {request.path_qs}"
        if what in self._answers and self._happens(Fault.STALE, drawn):
            status, answer = self._answers[what]
            return web.Response(status=status, body=answer, content_type="application/json")
        self.requests.append(what)
        try:
            async with self._pool(request).request(
                request.method, request.path_qs, data=body or None, headers=_kept(request.headers)
            ) as answered:
                if _is_watch(request) and answered.status == 200:
                    return await self._watch(request, answered, drawn)
                answer = await answered.read()
        except aiohttp.ClientError:
            return _broken(request)
        self.answered.append(what)
        if request.method == "GET":
            # A client that has listed (more than one object, from which it sees the present version) is never shown older events.
            if request.query.get("limit") != "1":
                self._events.pop(_followed(request), None)
            self._remember(what, answered.status, answer)
        await self._hold(Fault.HOLD_ANSWER, drawn)
        if self._happens(Fault.LOSE_ANSWER, drawn) or await self._lost():
            return _broken(request)
        if self._happens(Fault.FAIL, drawn):
            return _status(500, "InternalError")
        if self._happens(Fault.GARBLE, drawn):
            return web.Response(text="{}" if len(answer) % 2 else "<html>some gateway</html>")
        return web.Response(status=answered.status, body=answer, headers=_kept(answered.headers))

    def _pool(self, request: web.BaseRequest) -> aiohttp.ClientSession:
        # A client certificate would win over the token.
        return self._bare if "Authorization" in request.headers else self._certified

    async def _lost(self) -> bool:
        """Say whether nothing comes through now; then only after that is over."""
        if self._whole.is_set():
            return False
        await self._whole.wait()
        return True

    async def _hold(self, fault: Fault, drawn: Mapping[Fault, Rule]) -> None:
        if self._happens(fault, drawn):
            with suppress(TimeoutError):
                async with asyncio.timeout(drawn[fault].seconds):
                    await self._go.wait()

    def _remember(self, what: str, status: int, answer: bytes) -> None:
        self._answers.pop(what, None)
        self._answers[what] = status, answer
        while len(self._answers) > _MOST_REMEMBERED:
            self._answers.pop(next(iter(self._answers)))

    async def _watch(
        self, request: web.BaseRequest, answered: aiohttp.ClientResponse, drawn: Mapping[Fault, Rule]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_kept(answered.headers))
        await response.prepare(request)
        events = self._events.setdefault(_followed(request), deque(maxlen=_MOST_REMEMBERED))
        with suppress(ConnectionError):
            if events and self._happens(Fault.REPLAY, drawn):
                for line in self._random.sample(list(events), len(events)):
                    await response.write(line)
            async for line in answered.content:
                if await self._lost():
                    return _broken(request)
                await response.write(line)
                if b'"type":"BOOKMARK"' not in line:
                    events.append(line)
                    if self._happens(Fault.CUT, drawn):
                        return _broken(request)
                    if self._happens(Fault.END, drawn):
                        await response.write(_error_event(410, "Expired"))
                        break
        return response


def _is_watch(request: web.BaseRequest) -> bool:
    return request.query.get("watch") in ("1", "true")


def _followed(request: web.BaseRequest) -> str:
    """Return what a list or watch is about: several clients may follow one path by selectors of their own."""
    return "?".join(
        (request.path, *(request.query.get(f"{kind}Selector", "") for kind in ("field", "label")))
    )


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_CONNECTION}


def _broken(request: web.BaseRequest) -> web.Response:
    """Break the connection; what is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _status(code: int, reason: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a refusal as the API server writes it."""
    return web.json_response(_said(code, reason), status=code, headers=headers)


def _error_event(code: int, reason: str) -> bytes:
    """Return the event by which the API server ends a watch that it cannot continue (watch.k8s.io ERROR)."""
    return orjson.dumps({"type": "ERROR", "object": _said(code, reason)}) + b"\n"


def _said(code: int, reason: str) -> Json:
    """Return a refusal (meta/v1 Status)."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return {**said, "message": f"made up: {reason}"}
