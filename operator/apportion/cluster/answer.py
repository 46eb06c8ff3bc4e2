"""Answers of the API server, read: the object, or the error that it stands for.

In: status, headers and bytes. Out: decoded objects, or an error of the tree in `errors.py`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import orjson

from apportion.errors import ApiError, Expired, Missing, Overtaken, Unanswered, Unreachable

DEEPEST: Final = 500
"""Levels of nested JSON that are read. The API server stores ten thousand in parameters of a claim, which anybody may make; orjson reads 1024."""
_MARK: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_BY_STATUS: Mapping[int, type[ApiError]] = {404: Missing, 409: Overtaken, 410: Expired}


def read_json(text: bytes) -> Any:
    """Read JSON as Go does, null in place of what is nested deeper than `DEEPEST`; raises JSONDecodeError for a text that is none.

    The API server stores the parameters of a claim byte for byte, bytes that are no UTF-8 and halves of surrogate pairs included. One
    such object must not keep a list or a watch of all others from being read.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = text.decode(errors="replace").encode()
        return orjson.loads(_cut(_ESCAPE.sub(_character, whole)))


def _character(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape["half"] else escape[0]


def _cut(text: bytes) -> bytes:
    kept, depth, end = [], 0, 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1:
                kept += [text[end : found.start()], b"null"]
        elif mark in (b"]", b"}"):
            if depth == DEEPEST + 1:
                end = found.end()
            depth -= 1
    return b"".join((*kept, text[end:]))


def decoded(
    method: str, path: str, answer: bytes, *, bare: bool = False, collection: bool = False
) -> dict[str, Any]:
    """Return the object that was answered; raises Unanswered where it is none of the API, as what a gateway says in the API server's place.

    Every object, list and Status has `metadata`; a `bare` answer, such as that of /version, has none. A `collection` has objects as `items`.
    """
    try:
        found = read_json(answer)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not (bare or isinstance(found.get("metadata"), dict)):
        raise _strange(method, path, "object", answer)
    if collection:
        items = found.get("items")
        if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
            raise _strange(method, path, "list", answer)
    return found


def version_of(path: str, answer: Mapping[str, Any]) -> tuple[int, int]:
    """Return a server's major and minor version. Raises Unanswered where it says none."""
    try:
        return int(answer["major"]), int(re.sub(r"\D.*", "", str(answer["minor"])))
    except (LookupError, TypeError, ValueError):
        raise _strange("GET", path, "version", orjson.dumps(answer)) from None


def _strange(method: str, path: str, wanted: str, answer: bytes) -> Unanswered:
    said = answer[:200].decode(errors="replace")
    return Unanswered(f"{method} {path}: the answer is no {wanted} of the API, but {said!r}")


def watch_event(path: str, line: bytes) -> dict[str, Any]:
    """Return an event of a watch: `type` and `object`. Raises Unreachable where it is none, and the error that an ERROR event stands for."""
    try:
        found: dict[str, Any] = read_json(line)
        code = _error_code(found["type"], found["object"])
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
        said = line[:200].decode(errors="replace")
        raise Unreachable(f"WATCH {path}: no event of the API, but {said!r}") from None
    if code:
        raise refusal("WATCH", path, code, orjson.dumps(found["object"]))
    return found


def _error_code(change: str, item: dict[str, Any]) -> int:
    if not isinstance(item["metadata"], dict):
        raise TypeError
    return int(item.get("code", 500)) if change == "ERROR" else 0


def error_of(
    method: str, path: str, response: aiohttp.ClientResponse, answer: bytes, *, collection: bool = False
) -> ApiError:
    """Return the error of an answer whose status is 400 or more; one of 429 says when to ask again. `collection`: as `refusal` has it."""
    refused = refusal(method, path, response.status, answer, collection=collection)
    wait = response.headers.get("Retry-After", "")
    if response.status == 429 and wait.isdecimal():
        return Unreachable(str(refused), status=429, retry_after=float(wait))
    return refused


def refusal(method: str, path: str, status: int, answer: bytes, *, collection: bool = False) -> ApiError:
    """Return the error of a status object (metav1.Status), or of a text that is none.

    That one object is not there a status object alone says, and not the page of a gateway that does not find the API server. A `collection` that is not
    served the API server itself answers with a text.
    """
    is_status = False
    try:
        said = read_json(answer)
        is_status = said.get("kind") == "Status"
        # Of a refused eviction only the causes name the PodDisruptionBudget.
        causes = said.get("details", {}).get("causes", ()) if status == 429 else ()
        message = " ".join(str(each.get("message") or "") for each in (said, *causes))
    except (orjson.JSONDecodeError, AttributeError):
        message = answer[:200].decode(errors="replace")
    if status == 429:
        return Unreachable(f"{method} {path}: 429 {message}", status=status)
    if status == 404 and not (is_status or collection):
        return Unanswered(
            f"{method} {path}: 404, and the API server does not say so: {message}", status=status
        )
    kind = _BY_STATUS.get(status, Unanswered if status >= 500 else ApiError)
    return kind(f"{method} {path}: {status} {message}", status=status)
