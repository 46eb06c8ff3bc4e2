"""Recorder: core/v1 Events on the objects that something happened to.

In: object, reason, text. Out: written Events. The same text again raises the count of the first Event. Nothing waits for the
recorder, and an Event that cannot be written is only logged.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import EVENTS, ResourceKind
from apportion.errors import ApiError, Missing, Overtaken

_log = structlog.get_logger()
_LONGEST = 1024
"""Characters of an Event's message (core/v1 validation)."""
_SILENCE = 300.0
"""Seconds in which the same text about the same object is not repeated."""
_PACE = 10.0
"""Seconds between two texts for one reason about one object; of those in between the newest is written."""


@dataclass(frozen=True, slots=True)
class About:
    """The object that an Event is about (`involvedObject`)."""

    kind: ResourceKind
    name: str
    uid: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class _Event:
    """An Event to write."""

    about: About
    severity: str
    reason: str
    text: str


@dataclass(slots=True)
class _Topic:
    """The last Event for one reason about one object."""

    at: float = float("-inf")
    text: str = ""
    count: int = 0
    later: _Event | None = None
    """The newest text that came too soon after the one before."""


class Recorder:
    """Writes Events in the background."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        """Prepare; nothing is written before `run`."""
        self._client = client
        self._component = component
        self._clock = clock
        self._now = now
        self._waiting: asyncio.Queue[tuple[_Event, int]] = asyncio.Queue(1000)
        self._topics: OrderedDict[tuple[str, str], _Topic] = OrderedDict()

    def normal(self, about: About, reason: str, text: str) -> None:
        """Record what went as it should."""
        self._record(_Event(about, "Normal", reason, _short(text)))

    def warning(self, about: About, reason: str, text: str) -> None:
        """Record what a person should look at."""
        self._record(_Event(about, "Warning", reason, _short(text)))

    def _record(self, event: _Event) -> None:
        key = (event.about.uid or event.about.name, event.reason)
        topic = self._topics.setdefault(key, _Topic())
        self._topics.move_to_end(key)
        while len(self._topics) > 10_000:
            self._topics.popitem(last=False)
        age = self._clock() - topic.at
        if event.text == topic.text and age < _SILENCE:
            topic.later = None
        elif age < _PACE:
            topic.later = event
        else:
            self._say(topic, event)

    def _say(self, topic: _Topic, event: _Event) -> None:
        topic.count = topic.count + 1 if event.text == topic.text else 1
        topic.at, topic.text, topic.later = self._clock(), event.text, None
        try:
            self._waiting.put_nowait((event, topic.count))
        except asyncio.QueueFull:
            _log.warning("recorder.dropped", reason=event.reason, object=event.about.name)

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._say_later())
            while True:
                event, count = await self._waiting.get()
                try:
                    await self._write(event, count)
                except ApiError as error:
                    _log.warning(
                        "recorder.failed", reason=event.reason, object=event.about.name, error=str(error)
                    )

    async def _say_later(self) -> None:
        """Say what came too soon, once its time has come."""
        while True:
            await asyncio.sleep(1.0)
            for topic in list(self._topics.values()):
                if topic.later is not None and self._clock() - topic.at >= _PACE:
                    self._say(topic, topic.later)

    async def _write(self, event: _Event, count: int) -> None:
        about = event.about
        namespace = about.namespace or "default"
        identity = f"{about.uid} {event.reason} {event.text} {self._component}"
        name = f"{about.name[:230]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.name,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.kind.api_version,
                "kind": about.kind.name,
                "name": about.name,
                "uid": about.uid,
                **({"namespace": about.namespace} if about.namespace else {}),
            },
            "type": event.severity,
            "reason": event.reason,
            "message": event.text,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": count,
        }
        try:
            await self._client.create(EVENTS, body, namespace=namespace)
        except Overtaken:
            update = {"lastTimestamp": stamp, "count": max(count, 2)}
            try:
                await self._client.patch(EVENTS, name, update, namespace=namespace)
            except Missing:
                await self._client.create(EVENTS, body, namespace=namespace)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."
