"""Names taken out of a cluster, so that it can be given to others.

In: the objects of a cluster. Out: the same objects with the names of all kinds but classes numbered by kind, and so are UIDs, values of
labels, cohorts of quotas, and what tells one device from all others (UUIDs, serial numbers). One name is always the same number, also where it is
compared: in selectors of labels, and in CEL. Keys of labels, numbers, DeviceClasses, drivers, names of devices and their other attributes but that of
the layout stay: decisions go by them. Messages of conditions are left out: they name all of these, and nothing goes by them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from apportion.api.contract import LAYOUT_LABEL
from apportion.cli.world.objects import key_of, kind_of
from apportion.cluster import kinds
from apportion.dra.reading import Json

_KEPT_NAMES = frozenset((kinds.CLASSES.name, kinds.STORAGE_CLASSES.name))
"""Names of these kinds say what something is, not whose."""
_OF_FIELD: Final[Mapping[str, str]] = {
    "nodeName": kinds.NODES.name,
    "pool": kinds.NODES.name,
    "kubernetes.io/hostname": kinds.NODES.name,
    "metadata.name": kinds.NODES.name,
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
    LAYOUT_LABEL: kinds.LAYOUTS.name,
    "cohort": "cohort",
    "uid": "uid",
    "shareID": "shareID",
    "controllers": "uid",
}
"""Whose name the text in a field is, wherever the field occurs."""
_OF_RESOURCE: Final[Mapping[str, str]] = {kind.plural: kind.name for kind in (kinds.PODS, kinds.POD_GROUPS)}
_AS_WRITTEN = frozenset(("attributes", "capacity", "selectors", "opaque"))
"""Fields in which nothing but devices is renamed: decisions go by what is in them."""
_LABELS = frozenset(("labels", "nodeSelector", "matchLabels"))
"""Fields whose object is labels, by key."""
_KEPT_LABELS = frozenset(("kubernetes.io/arch", "kubernetes.io/os"))
_PLAIN = re.compile(r"|true|false|-?\d+")
"""Values of labels that say nothing about their owner, and that may be compared by size."""
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
_LAYOUT = r"""\blayout\b(?:["']\])?(?:\.orValue\((?:""|'')\))?"""
_COMPARED = re.compile(
    rf"""{_LAYOUT}\s*(?:[=!]=\s*(["'])(?P<after>[^"']*)\1|in\s*\[(?P<listed>[^\[\]]*)\])|(["'])(?P<before>[^"']*)\4\s*[=!]=\s*[\w.?\[\]"']*{_LAYOUT}"""
)
"""A text of CEL that compares the attribute `layout` of a device with names."""
_OF_ONE_DEVICE = re.compile(r"(?:uuid|serial|serialnumber)$", re.IGNORECASE)
"""Names of attributes that differ from device to device."""
_VARIANT: Final[Mapping[str, str]] = {"uid": "8000", "shareID": "8000", "deviceUUID": "9000"}
"""Group of the UUIDs that stand for those of a kind."""


class _Names:
    """Numbered names, by kind and former name."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self._digits: dict[str, int] = {}

    def known_first(self, found: Iterable[tuple[str, str]]) -> None:
        """Number these names by kind in their own order: the queue and ties between nodes go by it, too."""
        by_kind: dict[str, set[str]] = {}
        for kind, name in found:
            by_kind.setdefault(kind, set()).add(name)
        for kind, named in by_kind.items():
            self._digits[kind] = len(str(len(named)))
            for name in sorted(named):
                self.of(kind, name)

    def of(self, kind: str, name: str) -> str:
        if not name or kind in _KEPT_NAMES:
            return name
        if (kind, name) not in self._found:
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            # A share ID is a UUID; so is a UID where claims are told apart in a text.
            made = f"00000000-0000-4000-{_VARIANT[kind]}-{number:012}" if kind in _VARIANT else ""
            self._found[kind, name] = made or f"{kind.lower()}-{number:0{self._digits.get(kind, 1)}}"
        return self._found[kind, name]

    def known(self, text: str) -> str | None:
        """Return the new name of what a text names, if it names a node, a namespace or a UID."""
        for kind in (kinds.NODES.name, kinds.NAMESPACES.name, "uid"):
            if (kind, text) in self._found:
                return self._found[kind, text]
        return None

    def label(self, key: str, value: str) -> str:
        """Return the new value of a label, or of what is compared with one."""
        if key in _OF_FIELD:
            return self.of(_OF_FIELD[key], value)
        own = key.startswith("apportion.dev/") or key in _KEPT_LABELS
        if own or _PLAIN.fullmatch(value):
            return value
        return self.known(value) or self.of("value", value)

    def device(self, text: str) -> str:
        """Return the new text of what tells a device from others; it is known from then on wherever it is quoted."""
        if ("device", text) not in self._found:
            self._found["device", text] = self._uuids(text) if _UUID.search(text) else self.of("device", text)
        return self._found["device", text]

    def in_text(self, text: str) -> str:
        """Return a text, as one of CEL, with what tells devices apart renamed."""
        if ("device", text) in self._found:
            return self._found["device", text]
        return _QUOTED.sub(
            lambda found: found[1] + self._found.get(("device", found[2]), found[2]) + found[1],
            _COMPARED.sub(self._layouts, self._uuids(text)),
        )

    def _layouts(self, compared: re.Match[str]) -> str:
        """Return a comparison of CEL with the names of layouts renamed."""
        [(start, end)] = [
            compared.span(part) for part in ("after", "listed", "before") if compared[part] is not None
        ]
        whole, offset = compared[0], compared.start()
        inside = whole[start - offset : end - offset]
        made = (
            _QUOTED.sub(lambda found: found[1] + self.of(kinds.LAYOUTS.name, found[2]) + found[1], inside)
            if compared["listed"] is not None
            else self.of(kinds.LAYOUTS.name, inside)
        )
        return whole[: start - offset] + made + whole[end - offset :]

    def _uuids(self, text: str) -> str:
        return _UUID.sub(
            lambda found: self._found.get(("uid", found[0])) or self.of("deviceUUID", found[0]), text
        )


def anonymized(objects: Iterable[Json]) -> list[Json]:
    """Return the objects without names. Raises BrokenInput for an object that has none."""
    found = [each for each in objects if kind_of(each) is not None]
    names = _Names()
    names.known_first((key_of(each).kind, key_of(each).name) for each in found)
    names.known_first(("cohort", each) for each in _cohorts(found))
    names.known_first(("uid", str(each["metadata"].get("uid") or "")) for each in found)
    for each in found:
        if kind_of(each) == kinds.SLICES:
            # Those who name a device by CEL may come before its slice.
            _devices(each.get("spec"), names, "")
    return [_object(each, names) for each in found]


def _cohorts(objects: Iterable[Json]) -> Iterator[str]:
    for each in objects:
        spec = each.get("spec") if kind_of(each) == kinds.QUOTAS else None
        if isinstance(spec, Mapping) and isinstance(spec.get("cohort"), str):
            yield spec["cohort"]


def _object(raw: Json, names: _Names) -> Json:
    made: dict[str, Any] = _renamed(raw, names, "")
    made["metadata"]["name"] = names.of(str(raw["kind"]), raw["metadata"]["name"])
    return made


def _renamed(value: Any, names: _Names, field: str) -> Any:
    if field in _AS_WRITTEN:
        return _devices(value, names, field)
    if isinstance(value, Mapping):
        if field in _LABELS and all(isinstance(text, str) for text in value.values()):
            return {key: names.label(key, text) for key, text in value.items()}
        made = {key: _renamed(inside, names, key) for key, inside in value.items()}
        kind = _referred(value, field)
        if kind:
            made["name"] = names.of(kind, str(value["name"]))
        compared = value.get("key"), value.get("values")
        if isinstance(compared[0], str) and isinstance(compared[1], list):
            made["values"] = [names.label(compared[0], str(text)) for text in compared[1]]
        return made
    if isinstance(value, Sequence) and not isinstance(value, str):
        if field == "conditions":
            value = [_without_message(each) for each in value]
        return [_renamed(inside, names, field) for inside in value]
    if not isinstance(value, str):
        return value
    if field in _OF_FIELD:
        return names.of(_OF_FIELD[field], value)
    return names.known(value) or names.in_text(value)


def _without_message(condition: Any) -> Any:
    if not isinstance(condition, Mapping):
        return condition
    return {key: value for key, value in condition.items() if key != "message"}


def _devices(value: Any, names: _Names, field: str) -> Any:
    """Return what is kept as it is written, but for what tells devices apart; `field` is the attribute, or the field, that it is in."""
    if isinstance(value, Mapping):
        layout = value.get("string") if field.rpartition("/")[2] == "layout" else None
        if isinstance(layout, str):
            return {**value, "string": names.of(kinds.LAYOUTS.name, layout)}
        return {
            key: _devices(inside, names, field if key == "string" else str(key))
            for key, inside in value.items()
        }
    if isinstance(value, list):
        return [_devices(each, names, field) for each in value]
    if not isinstance(value, str):
        return value
    return names.device(value) if _OF_ONE_DEVICE.search(field) else names.in_text(value)


def _referred(raw: Json, field: str) -> str:
    """Return the kind of what an object inside another one refers to by `name`; empty: nothing."""
    if not isinstance(raw.get("name"), str):
        return ""
    if field == "pool":
        return kinds.NODES.name
    if field == "claimRef":
        return kinds.VOLUME_CLAIMS.name
    return str(raw.get("kind") or _OF_RESOURCE.get(str(raw.get("resource")), ""))
