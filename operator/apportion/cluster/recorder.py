"""Recorder: tell people what happened, by Events on the object that it happened to.

In: object, reason, text. Out: core/v1 Events. Saying the same again raises the count of the first Event instead of
making another. Nothing waits for the recorder, and nothing breaks when an Event cannot be written.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import EVENTS, Kind
from apportion.errors import ApiError, Missing, Overtaken

_log = structlog.get_logger()
_LONGEST = 1024
"""Characters of an Event's message (core/v1 validation)."""


@dataclass(frozen=True, slots=True)
class About:
    """The object that an Event speaks of."""

    kind: Kind
    name: str
    uid: str
    namespace: str = ""


class Recorder:
    """Writes Events in the background."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        silence: float = 300.0,
        most: int = 1000,
    ) -> None:
        """`silence`: seconds in which the same text about the same object is not repeated; `most`: waiting Events."""
        self._client = client
        self._component = component
        self._clock = clock
        self._now = now
        self._silence = silence
        self._waiting: asyncio.Queue[tuple[About, str, str, str, int]] = asyncio.Queue(most)
        self._said: OrderedDict[tuple[str, str, str], tuple[float, int]] = OrderedDict()
        """When we said it last, and how often."""

    def normal(self, about: About, reason: str, text: str) -> None:
        """Record what went as it should."""
        self._record(about, "Normal", reason, text)

    def warning(self, about: About, reason: str, text: str) -> None:
        """Record what somebody should look at."""
        self._record(about, "Warning", reason, text)

    def _record(self, about: About, severity: str, reason: str, text: str) -> None:
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."
        key = (about.uid or about.name, reason, text)
        last, count = self._said.get(key, (float("-inf"), 0))
        if self._clock() - last < self._silence:
            return
        self._said[key] = (self._clock(), count + 1)
        self._said.move_to_end(key)
        while len(self._said) > 10_000:
            self._said.popitem(last=False)
        try:
            self._waiting.put_nowait((about, severity, reason, text, count + 1))
        except asyncio.QueueFull:
            _log.warning("recorder.dropped", reason=reason, object=about.name)

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            about, severity, reason, text, count = await self._waiting.get()
            try:
                await self._write(about, severity, reason, text, count)
            except ApiError as error:
                _log.warning("recorder.failed", reason=reason, object=about.name, error=str(error))

    async def _write(self, about: About, severity: str, reason: str, text: str, count: int) -> None:
        namespace = about.namespace or "default"
        mark = hashlib.sha256(f"{about.uid} {reason} {text} {self._component}".encode()).hexdigest()[:16]
        name = f"{about.name[:230]}.{mark}"
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
            "type": severity,
            "reason": reason,
            "message": text,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": count,
        }
        try:
            await self._client.create(EVENTS, body, namespace=namespace)
        except Overtaken:
            again = {"lastTimestamp": stamp, "count": max(count, 2)}
            try:
                await self._client.patch(EVENTS, name, again, namespace=namespace)
            except Missing:
                await self._client.create(EVENTS, body, namespace=namespace)
