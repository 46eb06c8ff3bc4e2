"""Recorder: core/v1 Events on the objects that something happened to.

In: object, reason, text. Out: written Events. The same text again raises the count of the first Event. Nothing
waits for the recorder; what cannot be written, or has no room, is counted in the log and may be recorded again.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from apportion import metrics
from apportion.cluster.client import Client, Object
from apportion.cluster.eventbudget import EventBudget
from apportion.cluster.eventqueue import MOST_WAITING, About, Event, EventQueue
from apportion.cluster.kinds import EVENTS
from apportion.errors import ApiError, Missing, Overtaken

__all__ = ["About", "Recorder"]

MOST_TOPICS = 65_536
"""Objects and reasons whose last Event is remembered: that of a claim and of its pod, for 30,000 that wait."""

_log = structlog.get_logger()
_LONGEST = 1024
"""Characters of an Event's message (core/v1 validation)."""
_SILENCE = 300.0
"""Seconds in which the same text about the same object is not repeated."""
_PACE = 10.0
"""Seconds between two texts for one reason about one object; of those in between the newest is written."""
_WRITERS = 4
"""Events that are written at once."""
_LOOK = 1.0
"""Seconds after which it is looked for Events whose time has come, or whose namespace has some budget."""
_KEPT = 3600.0
"""Seconds for which a last Event is remembered: the API server drops Events then (kube-apiserver --event-ttl, an hour by default)."""
_LOGGED = 60.0
"""Seconds between two log lines about Events that were not written."""


@dataclass(slots=True)
class _Topic:
    """The last Event for one reason about one object."""

    at: float = float("-inf")
    """When a write was last tried."""
    text: str = ""
    """What was last written."""
    count: int = 0
    used: float = 0.0
    """When it was last asked for."""


class Recorder:
    """Writes Events in the background."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """Prepare; nothing is written before `run`. `most_waiting`: Events that wait at once."""
        self._client = client
        self._component = component
        self._clock = clock
        self._now = now
        self._queue = EventQueue(most_waiting)
        self._topics: OrderedDict[tuple[str, str], _Topic] = OrderedDict()
        self._reasons: dict[str, str] = {}
        """That of the last Event recorded about an object, until it is withdrawn, or its topic is forgotten."""
        self._recorded = asyncio.Event()
        self._budget = EventBudget()
        self._failed: tuple[int, str] = (0, "")
        """How many Events could not be written since the last log line, and why the last one could not."""
        self._logged = float("-inf")

    def normal(self, about: About, reason: str, text: str) -> None:
        """Record what went as it should."""
        self._record(Event(about, "Normal", reason, _short(text)))

    def warning(self, about: About, reason: str, text: str) -> None:
        """Record what a person should look at."""
        self._record(Event(about, "Warning", reason, _short(text)))

    def withdraw(self, about: About) -> None:
        """Write nothing more of what was recorded about the object: it is over."""
        self._queue.withdraw(about)
        self._reasons.pop(about.key, None)

    def reason(self, key: str) -> str | None:
        """Return the reason of the last Event recorded about an object (UID), as far as is remembered; None: what it said is over."""
        self._forget()
        return self._reasons.get(key)

    def has_written(self, about: About, reason: str) -> bool:
        """Say whether an Event for this reason about the object was written, as far as is remembered."""
        self._forget()
        topic = self._topics.get((about.key, reason))
        return topic is not None and topic.count > 0

    def _record(self, event: Event) -> None:
        topic = self._topic(event)
        self._reasons[event.about.key] = event.reason
        now = self._clock()
        if event.text == topic.text and now - topic.at < _SILENCE:
            # The text that was written is true again, so one that waits is not.
            self._queue.withdraw(event.about, event.reason)
        else:
            self._queue.put(event, due=topic.at + _PACE, now=now)
            self._recorded.set()

    def _topic(self, event: Event) -> _Topic:
        topic = self._topics.setdefault(event.topic, _Topic())
        topic.used = self._clock()
        self._topics.move_to_end(event.topic)
        self._forget()
        return topic

    def _forget(self) -> None:
        """Forget the topics that are more than enough, or whose Events the API server has dropped."""
        until = self._clock() - _KEPT
        while self._topics and (
            len(self._topics) > MOST_TOPICS or next(iter(self._topics.values())).used < until
        ):
            (key, reason), _ = self._topics.popitem(last=False)
            if self._reasons.get(key) == reason:
                del self._reasons[key]

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        slots = asyncio.Semaphore(_WRITERS)
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                event = await self._next()
                group.create_task(self._try(event)).add_done_callback(lambda _: slots.release())

    async def _next(self) -> Event:
        while True:
            self._recorded.clear()
            self._report()
            self._forget()
            now = self._clock()
            if wait := self._budget.wait(now):
                await asyncio.sleep(wait)
                continue
            event = self._queue.next(now, self._budget.allows)
            if event is not None:
                self._budget.spend(event.about.namespace, now)
                return event
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK if len(self._queue) else _KEPT):
                    await self._recorded.wait()

    async def _try(self, event: Event) -> None:
        topic = self._topic(event)
        count = topic.count + 1 if event.text == topic.text else 1
        topic.at = self._clock()
        try:
            await self._write(event, count)
        except ApiError as error:
            if isinstance(error, Missing) or "is being terminated" in str(error):
                return  # the namespace goes, and nobody will read it
            self._failed = (self._failed[0] + 1, str(error))
            metrics.EVENTS.labels("failed").inc()
        else:
            metrics.EVENTS.labels("written").inc()
            topic.text, topic.count = event.text, count

    def _report(self) -> None:
        """Log what was not written, once in a while."""
        failed, error = self._failed
        dropped = self._queue.dropped
        if not (failed or dropped) or self._clock() - self._logged < _LOGGED:
            return
        self._logged = self._clock()
        if failed:
            _log.warning("recorder.failed", count=failed, error=error)
        if dropped:
            namespaces = dict(dropped.most_common(5))
            _log.warning("recorder.dropped", count=dropped.total(), namespaces=namespaces)
            metrics.EVENTS.labels("dropped").inc(dropped.total())
        self._failed = (0, "")
        dropped.clear()

    async def _write(self, event: Event, count: int) -> None:
        about = event.about
        namespace = about.namespace or "default"
        identity = f"{about.uid} {event.reason} {event.text} {self._component}"
        # A part of a name ends with a letter or digit (apimachinery, `IsDNS1123Subdomain`).
        name = f"{about.name[:230].rstrip('-.')}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
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
