"""The Events of some objects, in the order in which they happened.

In: a client, objects. Out: rows, or the reason why there are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import EVENTS
from apportion.errors import ApiError
from apportion.web import storypage

MOST = 50
"""Events of one object that are read."""
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class EventRow:
    """One Event."""

    time: str
    """When it happened last (RFC 3339)."""
    about: str
    """Kind and name of its object."""
    warning: bool
    reason: str
    message: str
    count: int
    source: str
    """Who wrote it."""


@dataclass(frozen=True, slots=True)
class EventLog:
    """Events, or why there are none."""

    rows: tuple[EventRow, ...]
    error: str = ""


async def event_log(client: Client, namespace: str, objects: Sequence[storypage.Object]) -> EventLog:
    """Return the Events of the objects, the oldest first."""
    found: list[EventRow] = []
    for each in objects:
        try:
            answer = await client.list(
                EVENTS, namespace=namespace, fieldSelector=f"involvedObject.uid={each.uid}", limit=str(MOST)
            )
        except ApiError as error:
            if error.status == _FORBIDDEN:
                return EventLog((), "Events may not be read here; kubectl describe shows them.")
            return EventLog(tuple(found), f"Events could not be read: {error}")
        found += [_row(each, raw) for raw in answer.get("items") or ()]
    return EventLog(tuple(sorted(found, key=lambda row: row.time)))


def _row(about: storypage.Object, raw: Object) -> EventRow:
    series = raw.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        raw.get("lastTimestamp"),
        raw.get("eventTime"),
        raw["metadata"].get("creationTimestamp"),
    )
    source = raw.get("reportingComponent") or (raw.get("source") or {}).get("component") or "-"
    return EventRow(
        next((str(time) for time in times if time), ""),
        f"{about.kind} {about.name}",
        raw.get("type") == "Warning",
        str(raw.get("reason") or "-"),
        str(raw.get("message") or ""),
        int(series.get("count") or raw.get("count") or 1),
        str(source),
    )
