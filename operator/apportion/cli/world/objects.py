"""Objects of a cluster as plain JSON, and the kinds of them that decisions depend on.

In: a file: what `apportion snapshot` or `kubectl get -o yaml` writes. Out: its objects.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from apportion.cli import document
from apportion.cli.world.levels import cut, is_writable
from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from apportion.dra import reading
from apportion.dra.reading import Json
from apportion.errors import BrokenInput

VOLUME_KINDS = (kinds.VOLUME_CLAIMS, kinds.VOLUMES, kinds.STORAGE_CLASSES)
"""What says where a pod's volumes can be used; only all of them together do."""
DECIDING = (*kinds.OBSERVED, kinds.HOLDS, *VOLUME_KINDS)
"""The kinds that the operator observes, and what it shows of its memory."""
LEFT_OUT = "leftOut"
"""Field of the List that `apportion snapshot` writes: kinds (in plural) that could not be read."""
_BY_NAME = {kind.name: kind for kind in DECIDING}


class Contents(NamedTuple):
    """A cluster as it was read."""

    objects: list[Json]
    version: str
    """Of Kubernetes; empty: nobody knows."""
    volumes: bool
    """Whether all volumes, their claims and classes are among the objects: one that is not does not exist."""


class Key(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str


def kind_of(raw: Json) -> ResourceKind | None:
    """Return the deciding kind of an object; None for others, also those of the same name in another API group."""
    kind = _BY_NAME.get(str(raw.get("kind")))
    group, slash, _ = str(raw.get("apiVersion") or "").rpartition("/")
    return None if kind is None or ("apiVersion" in raw and (group if slash else "") != kind.group) else kind


def key_of(raw: Json) -> Key:
    """Return which object this is. Raises BrokenInput for one without a name, or with a namespace that is no text."""
    kind, metadata = str(raw.get("kind")), raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise BrokenInput(f"a {kind} has no name", field="metadata.name")
    return Key(kind, reading.text(metadata, "namespace", at=f"{kind} {name}: metadata", default=""), name)


def objects_of(file: Path) -> list[Json]:
    """Return the objects of a file that a person wrote: documents of YAML, JSON, Lists. Raises BrokenInput, which does not name the file."""
    return [*map(as_stored, _read(file).objects)]


def as_stored(raw: Json) -> Json:
    """Return an object as the API server would have it: without nulls, and without what is nested too deeply to be written."""
    found: Json = _without_nulls(raw if is_writable(raw) else cut(raw))
    return found


def _without_nulls(value: Any) -> Any:
    """Return JSON without fields that are null: to the API server they are absent (`limits:` with nothing below it)."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def contents_of(file: Path) -> Contents:
    """Return the objects of a file, with the Kubernetes version that it names. Raises BrokenInput, which names the file."""
    try:
        return _read(file)
    except BrokenInput as error:
        raise BrokenInput(str(error), field=str(file)) from None


def _read(file: Path) -> Contents:
    found: list[Json] = []
    version, left_out = "", None
    for number, each in enumerate(document.load_all(document.read(file))):
        if not isinstance(each, dict) or not isinstance(each.get("kind"), str):
            raise BrokenInput("expected an object with apiVersion and kind", field=f"document {number}")
        inside = each.get("items") if each["kind"].endswith("List") else [each]
        if not isinstance(inside, list) or not all(isinstance(item, dict) for item in inside):
            raise BrokenInput("expected a list of objects", field=f"document {number}: items")
        if each["kind"] == "List":
            version = str(each.get("kubernetesVersion") or version)
            left_out = each.get(LEFT_OUT, left_out)
        found += inside
    return Contents(found, version, _has_volumes(found, left_out))


def _has_volumes(objects: Iterable[Json], left_out: object) -> bool:
    """Say whether a file has all volumes: it says so, or somebody has written claims with what they can be bound to or are made by."""
    if isinstance(left_out, list):
        return not any(kind.plural in left_out for kind in VOLUME_KINDS)
    known = {kind_of(each) for each in objects}
    return kinds.VOLUME_CLAIMS in known and not known.isdisjoint((kinds.VOLUMES, kinds.STORAGE_CLASSES))
