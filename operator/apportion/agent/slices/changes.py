"""The writes that bring a pool's live slices to what they should be. Pure.

In: a pool, the live slices. Out: deletes, updates and creates, in the order in which they must happen. Rules of the
slice controller of k8s.io/dynamic-resource-allocation: a change of one slice in place keeps the pool's generation, anything
more gives every slice a new one; obsolete slices go first; what the API server adds (taint `timeAdded`) is no difference.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.agent.slices.pool import DriverPool, SliceContent
from apportion.api.contract import HELD

Json = dict[str, Any]
_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Owner:
    """The node that owns the slices, so that they go with it."""

    name: str
    uid: str

    def to_json(self) -> Json:
        """Write it as an owner reference."""
        return {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": self.uid, "controller": True}


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """Writes, to be done in this order. Empty: nothing to do."""

    generation: int
    deletes: tuple[Json, ...] = ()
    """Live slices that have no place any more."""
    updates: tuple[Json, ...] = ()
    """Whole objects with the resourceVersion that they replace."""
    creates: tuple[Json, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deletes or self.updates or self.creates)


def slice_changes(pool: DriverPool, live: Sequence[Json], owner: Owner, *, newest: int = 0) -> SliceChanges:
    """Compare a pool with its live slices. `newest` is the highest generation that this agent ever wrote."""
    here = {item["metadata"]["name"]: item for item in live}
    # An agent of before gave names without a hash: what has one keeps it, so that no device is away for a moment.
    former = {content.key: _plain_name(owner.name, pool.driver, content.key) for content in pool.contents}
    wanted = {
        former[content.key]
        if former[content.key] in here
        else slice_name(owner.name, pool.driver, content.key): content
        for content in pool.contents
    }
    generations = {int(item["spec"]["pool"].get("generation", 0)) for item in live}
    generation = max(generations, default=0)
    gone = tuple(item for name, item in here.items() if name not in wanted)
    missing = [name for name in wanted if name not in here]
    # An earlier round that broke off left two generations or a wrong count: write all slices.
    torn = len(generations) > 1 or any(
        item["spec"]["pool"]["resourceSliceCount"] != len(wanted) for item in live
    )
    changed = [
        name for name, content in wanted.items() if name in here and not _same(content, here[name], owner)
    ]
    if not (gone or missing or torn or changed):
        return SliceChanges(generation)
    if len(changed) > 1 or gone or missing or torn:
        generation = max(generation, newest) + 1
        changed = [name for name in wanted if name in here]
    return SliceChanges(
        generation,
        deletes=gone,
        updates=tuple(
            _object(name, wanted[name], pool, owner, generation=generation, live=here[name])
            for name in changed
        ),
        creates=tuple(_object(name, wanted[name], pool, owner, generation=generation) for name in missing),
    )


def slice_name(node: str, driver: str, key: str) -> str:
    """Return the name of a slice: readable, and with a hash where the parts are too long together, or may be those of another node.

    `a` with `b-c` reads as `a-b` with `c`; a driver without a hyphen is no end of another one's name.
    """
    mark = hashlib.sha256(f"{node}/{driver}".encode()).hexdigest()[:16]
    name = f"{node}-{driver}-{mark}-{key}" if "-" in driver else _plain_name(node, driver, key)
    return name if len(name) <= _LONGEST_NAME else f"{node[:150].rstrip('.-')}-{mark}-{key}"


def _plain_name(node: str, driver: str, key: str) -> str:
    return f"{node}-{driver}-{key}"


def _same(content: SliceContent, live: Json, owner: Owner) -> bool:
    owners = [row.get("uid") for row in live["metadata"].get("ownerReferences", ())]
    rows = live["spec"].get(content.field) or []
    held = (live["metadata"].get("annotations") or {}).get(HELD, "")
    same = owners == [owner.uid] and held == content.held
    return same and [bare(row) for row in rows] == [dict(row) for row in content.rows]


def bare(row: Mapping[str, Any]) -> Json:
    """Return a device without what the API server added."""
    if "taints" not in row:
        return dict(row)
    taints = [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in row["taints"]]
    return {**row, "taints": taints}


def _object(
    name: str,
    content: SliceContent,
    pool: DriverPool,
    owner: Owner,
    *,
    generation: int,
    live: Json | None = None,
) -> Json:
    metadata: Json = {"name": name, "ownerReferences": [owner.to_json()]}
    if content.held:
        metadata["annotations"] = {HELD: content.held}
    if live is not None:
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": {
            "driver": pool.driver,
            "nodeName": owner.name,
            "pool": {"name": owner.name, "generation": generation, "resourceSliceCount": len(pool.contents)},
            content.field: _with_times(content, live),
        },
    }


def _with_times(content: SliceContent, live: Json | None) -> list[Json]:
    """Keep `timeAdded` of taints that stay: the delay of an eviction must not start again with every write."""
    if live is None or content.field != "devices":
        return [dict(row) for row in content.rows]
    times = {
        (row["name"], taint["key"], taint["effect"], taint.get("value", "")): taint["timeAdded"]
        for row in live["spec"].get("devices") or []
        for taint in row.get("taints") or []
        if "timeAdded" in taint
    }
    rows = []
    for row in content.rows:
        taints = [
            {**taint, "timeAdded": times[mark]}
            if (mark := (row["name"], taint["key"], taint["effect"], taint.get("value", ""))) in times
            else taint
            for taint in row["taints"]
        ]
        rows.append({**row, "taints": taints})
    return rows
