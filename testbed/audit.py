"""Requests to the API server.

In: its audit log. Out: one value per request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Request:
    """One finished request: the fields of an RBAC rule, and the rule that allowed it.

    `decision` is `allow` or `forbid`; `rule` is the authorizer's reason, for RBAC the names of binding and role. Empty
    fields are "": a core resource has no group, a list no name.
    """

    user: str
    groups: tuple[str, ...]
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    decision: str
    rule: str


def requests(log: Path) -> Iterator[Request]:
    """Yield the requests for resources in an audit log, in the order in which they ended."""
    if not log.exists():
        return
    with log.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return  # the server is still writing it
            event: dict[str, Any] = orjson.loads(line)
            target = event.get("objectRef")
            if target is None:
                continue
            notes = event.get("annotations", {})
            yield Request(
                user=event["user"].get("username", ""),
                groups=tuple(event["user"].get("groups", ())),
                verb=event["verb"],
                group=target.get("apiGroup", ""),
                resource=target.get("resource", ""),
                subresource=target.get("subresource", ""),
                namespace=target.get("namespace", ""),
                name=target.get("name", ""),
                code=event.get("responseStatus", {}).get("code", 0),
                decision=notes.get("authorization.k8s.io/decision", ""),
                rule=notes.get("authorization.k8s.io/reason", ""),
            )
