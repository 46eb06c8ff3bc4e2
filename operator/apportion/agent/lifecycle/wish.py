"""What the operator wants of this node: its Partition objects as values.

In: watch events. Out: wishes by UID, and a call for each card that one of them concerns.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from apportion.agent.devices.values import Placement
from apportion.cluster.client import Object
from apportion.cluster.kinds import ResourceKind
from apportion.dra import reading
from apportion.errors import BrokenInput

_REMEMBERED = 512
"""Ends that are remembered; an answer is never that many ends late."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Holder:
    """Who uses a partition."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Wish:
    """One Partition object in one version."""

    name: str
    uid: str
    version: str
    generation: int
    created: str
    deleting: bool
    finalizers: tuple[str, ...]
    driver: str
    device: str
    parent: str
    profile: str
    placement: Placement | None
    origin: str
    holder: Holder | None
    status: Mapping[str, Any] = field(default_factory=dict)
    """As the API has it."""

    @property
    def layout(self) -> str:
        """Name of the layout that asks for it, "" when none does."""
        return self.holder.name if self.holder is not None and self.origin == "Layout" else ""

    @classmethod
    def from_json(cls, raw: Object) -> "Wish":
        """Read a Partition; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        place = reading.table(spec, "placement", at="spec")
        holder = reading.table(spec, "holder", at="spec")
        return cls(
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata"),
            version=reading.text(metadata, "resourceVersion", at="metadata"),
            generation=reading.number(metadata, "generation", at="metadata", default=0),
            created=reading.text(metadata, "creationTimestamp", at="metadata", default=""),
            deleting=metadata.get("deletionTimestamp") is not None,
            finalizers=reading.words(metadata, "finalizers", at="metadata"),
            driver=reading.text(spec, "driver", at="spec"),
            device=reading.text(spec, "device", at="spec"),
            parent=reading.text(spec, "parent", at="spec"),
            profile=reading.text(spec, "profile", at="spec"),
            placement=Placement(
                reading.number(place, "start", at="spec.placement"),
                reading.number(place, "size", at="spec.placement"),
            )
            if place
            else None,
            origin=reading.text(spec, "origin", at="spec"),
            holder=Holder(
                kind=reading.text(holder, "kind", at="spec.holder"),
                namespace=reading.text(holder, "namespace", at="spec.holder", default=""),
                name=reading.text(holder, "name", at="spec.holder"),
                uid=reading.text(holder, "uid", at="spec.holder"),
            )
            if holder
            else None,
            status=reading.table(raw, "status"),
        )


class Wishes:
    """All Partition objects of this node, as last seen."""

    def __init__(self, changed: Callable[[Wish], None] = lambda _: None) -> None:
        self._by_uid: dict[str, Wish] = {}
        # The watch may tell the end of an object before the answer to our own last write is read.
        self._gone: deque[str] = deque(maxlen=_REMEMBERED)
        self.changed = changed
        """Called with every wish that came, went, or now asks for something else."""

    def observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        """Take a watch event, or the answer to one of our own writes."""
        uid = item["metadata"]["uid"]
        if uid in self._gone:
            return
        if change == "DELETED":
            self._gone.append(uid)
            gone = self._by_uid.pop(uid, None)
            if gone is not None:
                self.changed(gone)
            return
        try:
            wish = Wish.from_json(item)
        except BrokenInput as error:
            # The schema refuses such objects; one that slipped through an older schema must not stop the others.
            _log.error("partition.unreadable", partition=item["metadata"].get("name"), error=str(error))
            return
        known = self._by_uid.get(uid)
        # The echo of an older write must not undo what the answer to a newer one already said.
        if known is not None and int(known.version) >= int(wish.version):
            return
        self._by_uid[uid] = wish
        # The echo of a status that we wrote ourselves is no news: it would wake its writer for ever.
        if known is None or (known.generation, known.deleting, known.finalizers) != (
            wish.generation,
            wish.deleting,
            wish.finalizers,
        ):
            self.changed(wish)

    def all(self) -> tuple[Wish, ...]:
        """Return all wishes."""
        return tuple(self._by_uid.values())

    def get(self, uid: str) -> Wish | None:
        """Return the wish of this Partition UID."""
        return self._by_uid.get(uid)

    def of(self, card: str) -> dict[str, Wish]:
        """Return the wishes for one card by UID, oldest first."""
        found = [wish for wish in self._by_uid.values() if wish.parent == card]
        return {wish.uid: wish for wish in sorted(found, key=lambda wish: (wish.created, wish.name))}

    def of_device(self, device: str) -> Wish | None:
        """Return the wish for a device, one that is not being deleted before one that is."""
        found = [wish for wish in self._by_uid.values() if wish.device == device]
        return min(found, key=lambda wish: wish.deleting, default=None)
