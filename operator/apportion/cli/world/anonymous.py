"""Names taken out of a cluster, so that it can be given to others.

In: the objects of a cluster. Out: the same objects with the names of all kinds but classes numbered by kind, and UIDs too.
DeviceClasses, drivers, devices, their attributes, labels and selectors stay: decisions go by them. A label's value, or one that is
compared with it, follows when it is the name of a node or namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from apportion.cli.world.objects import key_of, kind_of
from apportion.cluster import kinds
from apportion.dra.reading import Json

_KEPT_NAMES = frozenset((kinds.CLASSES.name, kinds.STORAGE_CLASSES.name))
"""Names of these kinds say what something is, not whose."""
_OF_FIELD: Final[Mapping[str, str]] = {
    "nodeName": kinds.NODES.name,
    "pool": kinds.NODES.name,
    "kubernetes.io/hostname": kinds.NODES.name,
    "namespace": kinds.NAMESPACES.name,
    "namespaces": kinds.NAMESPACES.name,
    "kubernetes.io/metadata.name": kinds.NAMESPACES.name,
    "resourceClaimName": kinds.CLAIMS.name,
    "resourceClaimTemplateName": kinds.CLAIM_TEMPLATES.name,
    "claimName": kinds.VOLUME_CLAIMS.name,
    "volumeName": kinds.VOLUMES.name,
    "podGroupName": kinds.POD_GROUPS.name,
    "apportion.dev/pod-group": kinds.POD_GROUPS.name,
    "kueue.x-k8s.io/pod-group-name": kinds.POD_GROUPS.name,
    "uid": "uid",
    "shareID": "shareID",
}
"""Whose name the text in a field is, wherever the field occurs."""
_OF_RESOURCE: Final[Mapping[str, str]] = {kind.plural: kind.name for kind in (kinds.PODS, kinds.POD_GROUPS)}
_AS_WRITTEN = frozenset(("attributes", "capacity", "selectors", "opaque"))
"""Fields in which nothing is renamed: decisions go by what is in them."""


class _Names:
    """Numbered names, by kind and former name."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}

    def of(self, kind: str, name: str) -> str:
        if not name or kind in _KEPT_NAMES:
            return name
        if (kind, name) not in self._found:
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            # A share ID is a UUID; so is a UID where claims are told apart in a text.
            made = f"00000000-0000-4000-8000-{number:012}" if kind in {"uid", "shareID"} else ""
            self._found[kind, name] = made or f"{kind.lower()}-{number}"
        return self._found[kind, name]

    def known(self, text: str) -> str | None:
        """Return the new name of what a text names, if it names a node, a namespace or a UID."""
        for kind in (kinds.NODES.name, kinds.NAMESPACES.name, "uid"):
            if (kind, text) in self._found:
                return self._found[kind, text]
        return None


def anonymized(objects: Iterable[Json]) -> list[Json]:
    """Return the objects without names. Raises BrokenInput for an object that has none."""
    found = [each for each in objects if kind_of(each) is not None]
    names = _Names()
    for each in found:
        names.of(key_of(each).kind, key_of(each).name)
        names.of("uid", str(each["metadata"].get("uid") or ""))
    return [_object(each, names) for each in found]


def _object(raw: Json, names: _Names) -> Json:
    made: dict[str, Any] = _renamed(raw, names, "")
    made["metadata"]["name"] = names.of(str(raw["kind"]), raw["metadata"]["name"])
    return made


def _renamed(value: Any, names: _Names, field: str) -> Any:
    if field in _AS_WRITTEN:
        return value
    if isinstance(value, Mapping):
        made = {key: _renamed(inside, names, key) for key, inside in value.items()}
        kind = _referred(value, field)
        if kind:
            made["name"] = names.of(kind, str(value["name"]))
        return made
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_renamed(inside, names, field) for inside in value]
    if not isinstance(value, str):
        return value
    if field in _OF_FIELD:
        return names.of(_OF_FIELD[field], value)
    return names.known(value) or value


def _referred(raw: Json, field: str) -> str:
    """Return the kind of what an object inside another one refers to by `name`; empty: nothing."""
    if not isinstance(raw.get("name"), str):
        return ""
    if field == "pool":
        return kinds.NODES.name
    if field == "claimRef":
        return kinds.VOLUME_CLAIMS.name
    return str(raw.get("kind") or _OF_RESOURCE.get(str(raw.get("resource")), ""))
