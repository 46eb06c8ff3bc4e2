"""Pod groups: pods of which all get their devices, or none.

In: a pod's metadata. Out: name and size of its group. Two conventions are read: our own, and that of Kueue's plain pod groups
(label `kueue.x-k8s.io/pod-group-name`, annotation `kueue.x-k8s.io/pod-group-total-count`), whose gate is removed before ours.
"""

from dataclasses import dataclass

from apportion.dra import reading
from apportion.dra.reading import Json

GROUP = "apportion.dev/pod-group"
"""Label: the group's name, within the namespace."""
LEAST = "apportion.dev/pod-group-min-count"
"""Annotation: how many pods must get their devices together."""
_ONE_BY_ONE = ("kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/pod-group-serving")
"""Annotations of Kueue's groups whose pods are created one after the other: waiting for all would never end."""
_CONVENTIONS = ((GROUP, LEAST), ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"))
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The group of a pod, as its metadata says."""

    name: str
    least: int
    """How many pods must get their devices together; 0: missing or invalid."""
    flaw: str = ""
    """Why `least` is 0, naming the annotation."""

    @classmethod
    def from_metadata(cls, metadata: Json) -> "PodGroup | None":
        """Read a pod's labels and annotations; None for a pod of no group."""
        labels = reading.table(metadata, "labels", at="metadata")
        for label, annotation in _CONVENTIONS:
            name = labels.get(label)
            if isinstance(name, str) and name:
                said = reading.table(metadata, "annotations", at="metadata")
                if label != GROUP and any(said.get(key) == "true" for key in _ONE_BY_ONE):
                    return None
                return cls(name, *_least(annotation, said.get(annotation)))
        return None


def _least(annotation: str, text: object) -> tuple[int, str]:
    where = f"metadata.annotations[{annotation}]"
    if text is None:
        return 0, f"{where} is missing: how many pods the group needs"
    found = text if isinstance(text, str) else ""
    # Kubernetes reads ASCII digits only.
    if found.isascii() and found.isdecimal() and len(found) < len(str(_MOST)) and int(found) > 0:
        return int(found), ""
    return 0, f"{where} is {str(text)[:40]!r}, not a number from 1 to {_MOST - 1}"
