"""All kopf handlers of the operator. They only pass events on to the app."""

from collections.abc import Mapping
from typing import Any, Protocol

import kopf

from apportion.cluster.kinds import CLAIMS, CLASSES, LAYOUTS, OWN, PARTITIONS, POLICIES, ResourceKind

FED_BY_KOPF = (CLAIMS, CLASSES, PARTITIONS, LAYOUTS, POLICIES)
"""Kinds whose objects are small. Reflectors watch nodes, pods and slices, since kopf copies each object on each event."""


class App(Protocol):
    """What handlers may call."""

    def observe(self, kind: ResourceKind, change: str, raw: Mapping[str, Any]) -> None:
        """Receive one watch event."""

    def connection(self) -> kopf.ConnectionInfo:
        """Return how to reach the API server, with a token that is valid now."""

    def stopping(self) -> None:
        """Learn that kopf has stopped, so that the process ends."""


class NoDiffs(kopf.AnnotationsDiffBaseStorage):
    """Turns kopf's diffs off: no handler needs one, and objects of others must not be annotated."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Return an empty essence, which spares kopf a deep copy of every object on every event."""
        del body, extra_fields
        return kopf.BodyEssence({})


def register(registry: kopf.OperatorRegistry, app: App) -> None:
    """Register all handlers. They return None: kopf would write any other value into the object."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        settings.scanning.disabled = True
        settings.posting.enabled = False
        settings.persistence.finalizer = f"{OWN}/finalizer"
        settings.persistence.diffbase_storage = NoDiffs()
        settings.watching.server_timeout = 300
        settings.watching.chunk_size = 500
        settings.networking.request_timeout = 30

    @kopf.on.login(registry=registry)
    async def login(**_: object) -> kopf.ConnectionInfo:
        return app.connection()

    @kopf.on.cleanup(registry=registry)
    async def clean(**_: object) -> None:
        app.stopping()

    for kind in FED_BY_KOPF:
        _watch(registry, app, kind)


def _watch(registry: kopf.OperatorRegistry, app: App, kind: ResourceKind) -> None:
    @kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=f"seen-{kind.plural}")
    async def seen(event: kopf.RawEvent, **_: object) -> None:
        app.observe(kind, event["type"] or "ADDED", event["object"])
