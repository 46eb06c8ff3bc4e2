"""What protects the page: requests that are answered at all, and the headers of each answer.

In: a request. Out: a refusal, or the answer with headers that let a browser run nothing but the page's own files. The page has no
secrets and changes nothing, but other pages in the same browser must not read it: a name of theirs that leads to the loopback address
(DNS rebinding) is refused by its Host header.
"""

import re
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOCAL = frozenset(("localhost", "127.0.0.1", "[::1]"))
"""Hosts by which the page may always be asked for."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(?::[0-9]{1,5})?")


def host_of(header: str) -> str:
    """Return the host of a Host header, without its port; empty: it is none."""
    found = _HOST.fullmatch(header)
    return found["host"].lower().rstrip(".") if found is not None else ""


def protection(hosts: frozenset[str]) -> Middleware:
    """Return the outermost middleware; `hosts`: further ones by which the page may be asked for."""
    allowed = LOCAL | {host.lower() for host in hosts}

    @web.middleware
    async def protect(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = _refusal(request, allowed) or await handler(request)
        answer.headers.update(HEADERS)
        return answer

    return protect


def _refusal(request: web.Request, allowed: frozenset[str]) -> web.Response | None:
    if host_of(request.headers.get(hdrs.HOST, "")) not in allowed:
        text = (
            "This page is not served under this name; the option --web-hosts names others than localhost.\n"
        )
        return web.Response(status=421, text=text)
    if request.method not in {hdrs.METH_GET, hdrs.METH_HEAD}:
        text = "This page can only be read.\n"
        return web.Response(status=405, text=text, headers={hdrs.ALLOW: "GET, HEAD"})
    return None
