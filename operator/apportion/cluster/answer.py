"""Answers of the API server, read: the object, or the error that it stands for.

In: status, headers and bytes. Out: decoded objects, or an error of the tree in `errors.py`.
"""

from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from apportion.errors import ApiError, Expired, Missing, Overtaken, Unanswered, Unreachable

_BY_STATUS: Mapping[int, type[ApiError]] = {404: Missing, 409: Overtaken, 410: Expired}


def decoded(method: str, path: str, answer: bytes) -> dict[str, Any]:
    """Return the object that was answered; raises Unanswered where it is none."""
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        said = answer[:200].decode(errors="replace")
        raise Unanswered(f"{method} {path}: the answer is no JSON object, but {said!r}")
    return found


def error_of(method: str, path: str, response: aiohttp.ClientResponse, answer: bytes) -> ApiError:
    """Return the error of an answer whose status is 400 or more; one of 429 says when to ask again."""
    refused = refusal(method, path, response.status, answer)
    wait = response.headers.get("Retry-After", "")
    if response.status == 429 and wait.isdecimal():
        return Unreachable(str(refused), status=429, retry_after=float(wait))
    return refused


def refusal(method: str, path: str, status: int, answer: bytes) -> ApiError:
    """Return the error of a status object (metav1.Status), or of a text that is none."""
    try:
        said = orjson.loads(answer)
        # Of a refused eviction only the causes name the PodDisruptionBudget.
        causes = said.get("details", {}).get("causes", ()) if status == 429 else ()
        message = " ".join(str(each.get("message") or "") for each in (said, *causes))
    except (orjson.JSONDecodeError, AttributeError):
        message = answer[:200].decode(errors="replace")
    if status == 429:
        return Unreachable(f"{method} {path}: 429 {message}", status=status)
    kind = _BY_STATUS.get(status, Unanswered if status >= 500 else ApiError)
    return kind(f"{method} {path}: {status} {message}", status=status)
