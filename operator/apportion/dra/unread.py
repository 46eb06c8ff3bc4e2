"""Unread: what is left out of the spec of a pod that has more entries than are read.

In: the spec of a Pod. Out: the same; or without the entries beyond a bound, and the first field that has such. The API bounds objects by their size alone: to read
tens of thousands of entries takes a tenth of a second and more, at each change of the pod.
"""

from dataclasses import dataclass
from typing import Any, Final

from apportion.dra.reading import Json

MOST_ENTRIES: Final = 4096
"""Entries of all lists of a pod together, with those inside of them: some thousandths of a millisecond each."""
_WORDS: Final = 16
"""Texts of a list that take as long to read as one entry."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_LISTS: Final = (
    ("containers",),
    ("initContainers",),
    ("schedulingGates",),
    ("volumes",),
    ("affinity", "podAntiAffinity", _REQUIRED),
    ("affinity", "podAffinity", _REQUIRED),
    ("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"),
    ("topologySpreadConstraints",),
    ("tolerations",),
)
"""First what others go by, too: what a pod takes of its node, and whom it shuns there."""
_INSIDE: Final = frozenset(
    {"ports", "resources", "requests", "labelSelector", "namespaces", "namespaceSelector"}
    | {"matchLabels", "matchExpressions", "matchFields", "values"}
)
"""What is read of an entry and may have entries of its own."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A field of which not all is read."""

    field: str
    """Its path in the pod."""
    count: int
    """The pod's entries up to the first that is not read."""


def without_unread(spec: Json) -> tuple[Json, Unread | None]:
    """Return a spec as far as it is read, and the first field that is not read to its end; None: all is, as almost always."""
    left, unread = MOST_ENTRIES, None
    for path in _LISTS:
        if path[0] not in spec:
            continue
        rows = _at(spec, path)
        for number, row in enumerate(rows):
            size = _size(row)
            if size > left:
                spec = _replaced(spec, path, rows[:number])
                unread = unread or Unread(".".join(("spec", *path[:2])), MOST_ENTRIES - left + size)
                break
            left -= size
    return spec, unread


def _at(spec: Json, path: tuple[str, ...]) -> list[Any]:
    """Return the list at this path; what is none is left to who reads it."""
    found: Any = spec
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def _replaced(spec: Json, path: tuple[str, ...], rows: list[Any]) -> Json:
    """Return a copy with another list at this path."""
    first, *rest = path
    return {**spec, first: _replaced(spec[first], tuple(rest), rows) if rest else rows}


def _size(entry: Any) -> int:
    """Return how many entries are read of one, itself included."""
    if not isinstance(entry, dict):
        return 1
    found = 1
    for key in _INSIDE & entry.keys():
        inside = entry[key]
        if isinstance(inside, list):
            texts = key in {"values", "namespaces"}
            found += (
                len(inside) // _WORDS if texts else max(len(inside), sum(map(_size, inside[:MOST_ENTRIES])))
            )
        elif isinstance(inside, dict):
            found += len(inside) if key in {"requests", "matchLabels"} else _size(inside)
    return found
