"""What benchmarks of a pass show a snapshot, and a client whose writes are never answered.

In: objects as a server would send them, but for the metadata that only a server gives. Out: the snapshot observes them.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from apportion.cluster.kinds import ResourceKind
from apportion.cluster.snapshot import Snapshot

Json = dict[str, Any]
ROOM = {"cpu": "128", "memory": "1Ti", "pods": "110"}
"""What a node has beside devices."""


class UnansweredApi:
    """A client whose writes are never answered."""

    def __getattr__(self, _name: str) -> Any:
        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        return never


def observe(snapshot: Snapshot, kind: ResourceKind, rows: Sequence[Json]) -> None:
    """Let the snapshot see new objects."""
    for row in rows:
        metadata = row["metadata"]
        uid = metadata.get("uid") or f"{kind.plural}/{metadata.get('namespace', '')}/{metadata['name']}"
        own = {"uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        snapshot.observe(kind, "ADDED", row | {"metadata": own | metadata})


def managed(row: Json) -> Json:
    """Return a DeviceClass as one of ours."""
    return row | {"metadata": row["metadata"] | {"labels": {"apportion.dev/managed": "true"}}}


def own_namespace(name: str) -> Json:
    """Return a namespace that its quota selects."""
    return {"metadata": {"name": name, "labels": {"own": name}}}


def quota(name: str, number: int, classes: Sequence[str]) -> Json:
    """Return the quota of a namespace, with room for everything; those of even numbers are one cohort."""
    resources = [
        {"name": f"r{index}", "deviceClass": each, "guaranteed": 100, "limit": 100_000}
        for index, each in enumerate(classes)
    ]
    spec = {"namespaceSelector": {"matchLabels": {"own": name}}, "resources": resources}
    return {"metadata": {"name": name}, "spec": spec | ({"cohort": "half"} if number % 2 == 0 else {})}
