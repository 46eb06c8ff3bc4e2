"""What if: a cluster with fewer nodes, or more of a kind.

In: the objects of a cluster. Out: the objects of the other cluster. A node takes with it its slices, its Partitions, the pods
bound to it and the claims that are allocated there. A further node has the devices of the node that it is like, and nothing runs on it.
"""

import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from apportion.api.contract import GUARD
from apportion.cli.world.objects import key_of, kind_of
from apportion.cluster import kinds
from apportion.dra.claim import Claim
from apportion.dra.node import Node
from apportion.dra.reading import Json
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput

MOST_ADDED = 1000
"""Nodes that may be added."""
_HOSTNAME = "kubernetes.io/hostname"


def without_nodes(objects: Iterable[Json], names: Collection[str]) -> list[Json]:
    """Return the cluster without some nodes. Raises BrokenInput for one that is not there."""
    found = [*objects]
    _require(found, names, "--without-node")
    return [each for each in found if not _is_on(each, names)]


def with_nodes_like(objects: Iterable[Json], count: int, name: str) -> list[Json]:
    """Return the cluster with further nodes like one that is there. Raises BrokenInput."""
    found = [*objects]
    _require(found, (name,), "--add-nodes")
    if not 0 < count <= MOST_ADDED:
        raise BrokenInput(f"{count} nodes cannot be added, 1 to {MOST_ADDED} can", field="--add-nodes")
    taken = {key_of(each).name for each in found if kind_of(each) == kinds.NODES}
    names = (new for number in itertools.count(1) if (new := f"{name}-like-{number}") not in taken)
    return found + [more for new in itertools.islice(names, count) for more in node_like(found, name, new)]


def node_like(objects: Iterable[Json], name: str, new: str) -> Iterator[Json]:
    """Yield the Node and the slices of a further, empty node of this new name. Raises BrokenInput for a slice without a name."""
    for each in objects:
        kind = kind_of(each)
        if kind == kinds.NODES and key_of(each).name == name and _is_read(Node.from_json, each):
            yield _renamed_node(each, new)
        elif kind == kinds.SLICES and _spec(each).get("nodeName") == name and _is_read(Slice.from_json, each):
            yield _renamed_slice(each, name, new)


def _is_read(read: Callable[[Json], object], raw: Json) -> bool:
    """Say whether an object can be read; one that cannot is left out by the world, which says so."""
    try:
        read(raw)
    except BrokenInput:
        return False
    return True


def _renamed_node(raw: Json, new: str) -> Json:
    made: dict[str, Any] = copy.deepcopy(dict(raw))
    labels = {**(made["metadata"].get("labels") or {})}
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = new
    made["metadata"] = {"name": new, "labels": labels}
    spec = made.get("spec") or {}
    made["spec"] = {key: value for key, value in spec.items() if key in {"taints", "providerID"}}
    return made


def _renamed_slice(raw: Json, old: str, new: str) -> Json:
    made: dict[str, Any] = copy.deepcopy(dict(raw))
    made["metadata"] = {"name": f"{new}-{key_of(raw).name}"}
    pool = made["spec"].setdefault("pool", {})
    # Pools of one driver have names of their own: most are called as their node.
    pool["name"] = new if pool.get("name") == old else f"{new}-{pool.get('name')}"
    made["spec"]["nodeName"] = new
    for device in made["spec"].get("devices") or ():
        # Who has a further node's devices prepared, or what is wrong with them, is not known: nobody, and nothing.
        guards = [taint for taint in device.get("taints") or () if taint.get("key") == GUARD]
        device.pop("taints", None)
        if guards:
            device["taints"] = guards
    return made


def _is_on(raw: Json, names: Collection[str]) -> bool:
    kind, spec = kind_of(raw), _spec(raw)
    if kind == kinds.NODES:
        return key_of(raw).name in names
    if kind in {kinds.SLICES, kinds.PARTITIONS, kinds.PODS}:
        return spec.get("nodeName") in names
    if kind == kinds.CLAIMS and _is_read(Claim.from_json, raw):
        allocation = Claim.from_json(raw).allocation
        return allocation is not None and allocation.node in names
    return False


def _spec(raw: Json) -> Json:
    spec = raw.get("spec")
    return spec if isinstance(spec, dict) else {}


def _require(objects: Sequence[Json], names: Iterable[str], option: str) -> None:
    known = {key_of(each).name for each in objects if kind_of(each) == kinds.NODES}
    for name in names:
        if name not in known:
            raise BrokenInput(f"there is no node {name}", field=option)
