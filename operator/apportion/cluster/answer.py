"""Answers of the API server, read: the object, or the error that it stands for.

In: status, headers and bytes. Out: decoded objects, or an error of the tree in `errors.py`.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal

import aiohttp
import orjson

from apportion.errors import ApiError, Expired, Missing, Oversized, Overtaken, Unanswered, Unreachable

DEEPEST: Final = 500
"""Levels of nested JSON that are read. The API server stores ten thousand in parameters of a claim, which anybody may make; orjson reads 1024."""
_LONGEST_LINE: Final = 2**26
"""Bytes of one watch event; an object is at most 1.5 MiB in etcd, decoded and escaped a few times that."""
Form = Literal["object", "list", "outcome", "any"]
"""What an answer has to be: an object that has a version; a list of such; those, or a Status; or any JSON object, as that of /version."""
LONGEST_WAIT: Final = 60.0
"""Seconds for which a Retry-After is honoured at most: nobody waits a day because a gateway says so."""
_CHANGES: Final = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))
"""Types of events (metav1.WatchEvent), beside ERROR."""
_MARK: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_BY_STATUS: Mapping[int, type[ApiError]] = {404: Missing, 409: Overtaken, 410: Expired}


def read_json(text: bytes | bytearray) -> Any:
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


def decoded(method: str, path: str, answer: bytes | bytearray, form: Form = "object") -> dict[str, Any]:
    """Return the object that was answered; raises Unanswered where it is none of the API, as what a gateway says in the API server's place.

    A Status that says Failure is the error that it stands for, whatever the status of HTTP says.
    """
    try:
        found = read_json(answer)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and found.get("kind") == "Status" and found.get("status") == "Failure":
        raise refusal(method, path, _code(found), answer)
    if not isinstance(found, dict) or not _has_form(found, form):
        said = answer[:200].decode(errors="replace")
        raise Unanswered(f"{method} {path}: the answer is no object of the API, but {said!r}")
    return found


def _has_form(found: dict[str, Any], form: Form) -> bool:
    if form == "any":
        return True
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or (
        form != "outcome" and not isinstance(metadata.get("resourceVersion"), str)
    ):
        return False
    if form != "list":
        return True
    items = found.get("items", ())
    return items is None or (isinstance(items, list) and all(map(_is_known, items)))


def _is_known(item: Any) -> bool:
    """Say whether an item has what every object of the API is known by."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and all(
        isinstance(metadata.get(key), str) for key in ("uid", "name", "resourceVersion")
    )


def _code(status: Mapping[str, Any]) -> int:
    """Return the code of a Status; 500 where it has none of an error."""
    code = status.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 500


async def body_of(response: aiohttp.ClientResponse, most: int = 0) -> bytes | bytearray:
    """Return the body of an answer; raises Oversized as soon as it has more than `most` bytes (0: any number), without reading the rest."""
    if not most:
        return await response.read()
    read = bytearray()
    async for chunk in response.content.iter_any():
        read += chunk
        if len(read) > most:
            raise Oversized(f"{response.method} {response.url.path}: more than {most} bytes")
    return read


async def lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into lines of any length; aiohttp's own reader refuses long ones."""
    rest = bytearray()
    async for chunk in stream.iter_any():
        rest += chunk
        if len(rest) > _LONGEST_LINE:
            raise aiohttp.ClientPayloadError("a watch event exceeds 64 MiB")
        if b"\n" in chunk:
            *whole, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in whole:
                if line:
                    yield bytes(line)


def watch_event(path: str, line: bytes) -> dict[str, Any]:
    """Return an event of a watch: `type` and `object`. Raises Unreachable where it is none, and the error that an ERROR event, or a Status, stands for.

    What an event of an unknown type says, a list shows: raises Expired.
    """
    found: dict[str, Any] = {}
    try:
        found = read_json(line)
        if found.get("kind") == "Status":
            raise refusal("WATCH", path, _code(found), line)
        change, item = found["type"], found["object"]
        metadata = item["metadata"]
        if change == "ERROR":
            raise refusal("WATCH", path, _code(item), orjson.dumps(item))
        if change not in _CHANGES:
            raise Expired(f"WATCH {path}: an event of type {change!r:.50}, which nobody knows")
        is_one = isinstance(metadata["resourceVersion"], str) if change == "BOOKMARK" else _is_known(item)
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        is_one = False
    if not is_one:
        said = line[:200].decode(errors="replace")
        raise Unreachable(f"WATCH {path}: no event of the API, but {said!r}")
    return found


def error_of(
    method: str, path: str, response: aiohttp.ClientResponse, answer: bytes | bytearray, form: Form = "object"
) -> ApiError:
    """Return the error of an answer whose status is 400 or more; one of 429 says when to ask again. `form`: as `refusal` has it."""
    refused = refusal(method, path, response.status, answer, form)
    wait = response.headers.get("Retry-After", "")
    if response.status == 429 and wait.isdecimal():
        return Unreachable(str(refused), status=429, retry_after=min(float(wait), LONGEST_WAIT))
    return refused


def refusal(
    method: str, path: str, status: int, answer: bytes | bytearray, form: Form = "object"
) -> ApiError:
    """Return the error of a status object (metav1.Status), or of a text that is none.

    That one object is not there a status object alone says, and not the page of a gateway that does not find the API server. A list whose kind is not
    served the API server itself answers with a text.
    """
    is_status = False
    try:
        said = read_json(answer)
        is_status = said.get("kind") == "Status"
        # Of a refused eviction only the causes name the PodDisruptionBudget.
        causes = said.get("details", {}).get("causes", ()) if status == 429 else ()
        message = " ".join(str(each.get("message") or "") for each in (said, *causes))
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        message = answer[:200].decode(errors="replace")
    if status == 429:
        return Unreachable(f"{method} {path}: 429 {message}", status=status)
    if status == 404 and not (is_status or form == "list"):
        return Unanswered(
            f"{method} {path}: 404, and the API server does not say so: {message}", status=status
        )
    kind = _BY_STATUS.get(status, Unanswered if status >= 500 else ApiError)
    return kind(f"{method} {path}: {status} {message}", status=status)
