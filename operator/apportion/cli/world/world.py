"""World: the objects of a cluster, and the operator's snapshot of them, kept in step.

In: objects as plain JSON, and changes of them. Out: the snapshot, with what layouts reserve held as in the operator.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.state import State
from apportion.cel import Programs
from apportion.cli.world.holds import Holds
from apportion.cli.world.objects import Key, key_of, kind_of
from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.snapshot import Snapshot
from apportion.dra import reading
from apportion.dra.reading import Json
from apportion.errors import BrokenInput
from apportion.partitions.layoutholds import LayoutHolds
from apportion.partitions.layoutplanner import layout_plans
from apportion.partitions.layouts import orphans

Change: TypeAlias = tuple[Key, Json | None]
"""An object as it is to be; None: it is gone."""


class World:
    """A cluster that can be asked about, and changed for the sake of a question."""

    def __init__(
        self,
        objects: Iterable[Json],
        version: str = "",
        schedulers: frozenset[str] = frozenset(),
        drivers: frozenset[str] = frozenset(),
        kept: MutableMapping[Key, Json] | None = None,
        *,
        volumes: bool = False,
    ) -> None:
        """`version`: of Kubernetes (1.37), empty: the newest known; `schedulers`: those that the operator serves, empty: kube-scheduler alone; `drivers`: further ones of agents.

        `kept`: where the objects are kept; None: as they are. `volumes`: all of them are known; else no volume ties a pod to a node. Raises BrokenInput for an object without a name. One that cannot be read counts as far as the operator lets it.
        """
        self.version = version
        self.objects: MutableMapping[Key, Json] = {} if kept is None else kept
        """Those of kinds that decide something."""
        self._programs = Programs()
        self.snapshot = Snapshot(State(features_of(version), self._programs), wake=lambda: None)
        self.snapshot.schedulers = schedulers or self.snapshot.schedulers
        self.snapshot.drivers |= drivers
        self.holds = Holds(self.snapshot.state)
        """What the operator holds beside allocations."""
        self._layouts = LayoutHolds(self.snapshot, partial=True)
        for each in objects:
            self.put(each)
        if volumes:
            self.snapshot.volumes.know(complete=True)
        self.reserve()

    def put(self, raw: Json) -> None:
        """Add or replace an object; one that decides nothing is left out. Raises BrokenInput for one without a name, or with a UID that is no text."""
        kind = kind_of(raw)
        if kind is None:
            return
        key = key_of(raw)
        self.objects[key] = raw
        # Only as restored it replaces a later version or a namesake, and comes back under its UID after it was deleted.
        self._take_in(kind, "RESTORED", _identified(raw, key))

    def observe(self, kind: ResourceKind, change: str, raw: Json) -> None:
        """Take in one watch event (ADDED, MODIFIED, DELETED, RESTORED); `reserve` must follow before the next question.

        `raw`: with its apiVersion and kind, which lists leave out, if it is not deleted.
        """
        metadata = raw["metadata"]
        key = Key(kind.name, metadata.get("namespace") or "", metadata["name"])
        if change == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = raw
        self._take_in(kind, change, raw)

    def drop(self, key: Key) -> None:
        """Remove an object."""
        raw = self.objects.pop(key)
        kind = kind_of(raw)
        if kind is not None:
            self._take_in(kind, "DELETED", _identified(raw, key))

    def _take_in(self, kind: ResourceKind, change: str, raw: Json) -> None:
        if kind != kinds.HOLDS:
            self.snapshot.observe(kind, change, raw)
        elif change == "DELETED":
            self.holds.drop(raw["metadata"]["name"])
        else:
            self.holds.put(raw)

    @contextmanager
    def changed(self, changes: Iterable[Change]) -> Iterator[None]:
        """Change the world within a block. A claim that loses its devices in it must have no pods that run."""
        before: list[tuple[Key, Json | None]] = []
        try:
            for key, raw in changes:
                before.append((key, self.objects.get(key)))
                self._set(key, raw)
            yield
        finally:
            for key, raw in reversed(before):
                self._set(key, raw)

    def _set(self, key: Key, raw: Json | None) -> None:
        if raw is not None:
            self.put(raw)
        elif key in self.objects:
            self.drop(key)

    def unreadable(self) -> list[BrokenInput]:
        """Return what is wrong with the objects that cannot be read."""
        broken = self.snapshot.broken.values()
        found = [
            (each.kind.name, "/".join(filter(None, (each.namespace, each.name))), each.error)
            for each in broken
        ]
        found += [(kinds.HOLDS.name, name, error) for name, error in self.holds.broken.items()]
        return [BrokenInput(str(error), field=f"{kind} {name}") for kind, name, error in found]

    def of_kind(self, kind: str) -> dict[Key, Json]:
        """Return the objects of a kind."""
        return {key: self.objects[key] for key in self.objects if key.kind == kind}

    def of_node(self, name: str) -> Iterator[Json]:
        """Yield the Node of this name and its slices."""
        keys = [Key(kinds.NODES.name, "", name)]
        slices = self.snapshot.slices.values()
        keys += [
            Key(kinds.SLICES.name, "", piece.name) for piece in slices if piece.availability.node == name
        ]
        yield from (self.objects[key] for key in keys if key in self.objects)

    def reserve(self) -> None:
        """Keep claims off what layouts want and have not cut yet or give up, as the partition controller does (ADR 4)."""
        plans = layout_plans(self.snapshot, self._programs) if self.snapshot.layouts else []
        self._layouts.follow(plans, orphans(self.snapshot, plans))


def features_of(version: str) -> Features:
    """Return the features that are on in this version of Kubernetes; an empty text is the newest known. Raises BrokenInput."""
    if not version:
        return DEFAULT_FEATURES
    found = re.fullmatch(r"v?(\d+)\.(\d+).*", version)
    if found is None:
        raise BrokenInput(f"{version!r} is no version of Kubernetes", field="kubernetesVersion")
    return Features.of((int(found[1]), int(found[2])))


def _identified(raw: Json, key: Key) -> Mapping[str, Any]:
    """Return the object with a UID. Raises BrokenInput for one that is no text."""
    metadata = raw["metadata"]
    if reading.text(metadata, "uid", at=f"{key.kind} {key.name}: metadata", default=""):
        return raw
    return {**raw, "metadata": {**metadata, "uid": f"{key.kind}/{key.namespace}/{key.name}"}}
