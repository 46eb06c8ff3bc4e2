"""A server whose kinds are watched one by one: what a snapshot hears of it may be late, listed anew, answered ahead or late, or restored from a backup."""

import copy
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from random import Random

from apportion.cluster.kinds import OBSERVED, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, ResourceKind
from apportion.cluster.reflector.reported import Reported
from apportion.cluster.snapshot import Snapshot
from tests.observedcluster import Json

KINDS = (*OBSERVED, VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)
Key = tuple[str, str]
"""Namespace and name."""
Backup = tuple[int, Mapping[ResourceKind, dict[Key, Json]]]


class WatchedServer:
    """Objects by kind and name, and what was not told of them yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        """`snapshot` is told."""
        self._snapshot = snapshot
        self._version = 100
        self._made = 0
        self.objects: defaultdict[ResourceKind, dict[Key, Json]] = defaultdict(dict)
        self._untold: defaultdict[ResourceKind, list[tuple[str, Json]]] = defaultdict(list)
        self._answers: list[tuple[ResourceKind, Json]] = []
        """To writes, that are still under way."""
        self._observed: Counter[ResourceKind] = Counter()
        self._versions: dict[str, int] = {}
        """What was told last of each object, by UID."""
        self._reported = {kind: Reported(kind, snapshot.observe, snapshot.answered) for kind in KINDS}

    def put(self, kind: ResourceKind, raw: Json) -> None:
        """Make an object, or change it."""
        self._version += 1
        metadata, key = raw["metadata"], _key(raw)
        former = self.objects[kind].get(key)
        if former is None:
            self._made += 1
            metadata["uid"] = f"{kind.plural}-{key[1]}-{self._made}"
            metadata["creationTimestamp"] = f"2026-01-01T00:{self._made // 60:02}:{self._made % 60:02}Z"
        else:
            own = former["metadata"]
            metadata |= {"uid": own["uid"], "creationTimestamp": own["creationTimestamp"]}
        metadata["resourceVersion"] = str(self._version)
        self.objects[kind][key] = copy.deepcopy(raw)
        self._untold[kind].append(("MODIFIED" if former else "ADDED", self.objects[kind][key]))

    def drop(self, kind: ResourceKind, key: Key) -> None:
        """Delete an object, if it is there."""
        found = self.objects[kind].pop(key, None)
        if found is not None:
            self._version += 1
            gone = copy.deepcopy(found)
            gone["metadata"]["resourceVersion"] = str(self._version)
            self._untold[kind].append(("DELETED", gone))

    def tell(self, kind: ResourceKind, most: int = 1_000_000) -> None:
        """Let the watch of a kind show so many changes."""
        for change, raw in self._untold[kind][:most]:
            self._report(kind, change, raw)
            self._reach(kind, int(raw["metadata"]["resourceVersion"]))
        del self._untold[kind][:most]

    def answer(self, kind: ResourceKind, key: Key) -> None:
        """Answer a write with the object as it is now; whatever the watch shows first, the answer arrives when `deliver` says so."""
        if key in self.objects[kind]:
            self._answers.append((kind, copy.deepcopy(self.objects[kind][key])))

    def deliver(self, rng: Random) -> bool:
        """Let one of the answers arrive; says whether there was one."""
        if not self._answers:
            return False
        kind, raw = self._answers.pop(rng.randrange(len(self._answers)))
        self._snapshot.observe(kind, "MODIFIED", raw)
        return True

    def list(self, kind: ResourceKind, *, restored: bool = False) -> None:
        """Show a kind as a list does after a watch that broke: what vanished, and what changed since it was told."""
        found = {raw["metadata"]["uid"]: raw for raw in self.objects[kind].values()}
        self._reported[kind].vanish(found)
        for uid, raw in found.items():
            if restored or self._versions.get(uid, 0) < int(raw["metadata"]["resourceVersion"]):
                self._report(kind, "RESTORED" if restored else "ADDED", raw)
        if restored:
            self._reported[kind].confirm(math.inf)
        self._untold[kind].clear()
        self._observed[kind] = 0
        self._reach(kind, self._version)

    def backup(self) -> Backup:
        """Return the state."""
        return self._version, copy.deepcopy(dict(self.objects))

    def restore(self, backup: Backup) -> None:
        """Return to a former state, which is listed."""
        self._version, objects = backup
        self.objects = defaultdict(dict, copy.deepcopy(dict(objects)))
        self._answers.clear()  # with the connections
        for kind in KINDS:
            self.list(kind, restored=True)

    def _report(self, kind: ResourceKind, change: str, raw: Json) -> None:
        self._versions[raw["metadata"]["uid"]] = int(raw["metadata"]["resourceVersion"])
        self._reported[kind].report(change, copy.deepcopy(raw))

    def _reach(self, kind: ResourceKind, version: int) -> None:
        self._observed[kind] = max(self._observed[kind], version)
        self._reported[kind].confirm(self._observed[kind])


def _key(raw: Json) -> Key:
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
