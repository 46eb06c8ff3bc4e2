"""GroupMembership: the pod group of a pod, as its metadata and spec say.

In: a Pod. Out: the group's name, how many of its pods must and may get their devices, and how close together; or what is wrong
with that, naming the annotation. Names that others give have a prefix with a slash, which no label value has, so that none is another's.

| whose | name | size |
|---|---|---|
| ours | label apportion.dev/pod-group | annotation apportion.dev/pod-group-min-count |
| Kueue's plain groups | label kueue.x-k8s.io/pod-group-name | annotation kueue.x-k8s.io/pod-group-total-count |
| Kubernetes (KEP-4671) | spec.schedulingGroup.podGroupName | the PodGroup object says it |
| LeaderWorkerSet | labels leaderworkerset.sigs.k8s.io/name and group-index | annotation leaderworkerset.sigs.k8s.io/size, or ours; a leader alone may say 1 |
| JobSet | label jobset.sigs.k8s.io/jobset-name, if the pod has our annotation | ours: nothing on a pod says how many pods its Jobs have |
"""

from collections.abc import Mapping
from dataclasses import dataclass

from apportion.dra import reading
from apportion.dra.reading import Json

GROUP = "apportion.dev/pod-group"
"""Label: the group's name, within the namespace."""
LEAST = "apportion.dev/pod-group-min-count"
"""Annotation: how many pods must get their devices together."""
MOST = "apportion.dev/pod-group-max-count"
"""Annotation: how many pods may have devices at once; without it all of them may."""
TOPOLOGY = "apportion.dev/pod-group-topology"
"""Annotation: key of a node label; nodes with equal values are one domain."""
MODE = "apportion.dev/pod-group-topology-mode"
"""Annotation: whether all pods of the group have to be in one domain (Required), or as far as it goes (Preferred, the default)."""
KUEUE_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
NATIVE = "podgroup/"
"""Prefix of the names of PodGroup objects."""
LEADER_WORKER_SET = "leaderworkerset/"
"""Prefix of the names of the replicas of LeaderWorkerSets."""
_KUEUE, _KUEUE_TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
_ONE_BY_ONE = ("kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/pod-group-serving")
"""Annotations of Kueue's groups whose pods are created one after the other: waiting for all would never end."""
_LWS = "leaderworkerset.sigs.k8s.io/"
_JOBSET = "jobset.sigs.k8s.io/"
_GREATER_INDEXES = (_JOBSET + "job-global-index",)
_INDEXES = (
    "batch.kubernetes.io/job-completion-index",
    _LWS + "worker-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "apps.kubernetes.io/pod-index",
)
_MOST_PODS = 100_000


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """How close together the pods of a group have to be."""

    label: str
    """Key of a node label; nodes with equal values are one domain, nodes without it are in none."""
    required: bool
    """Whether all pods have to be in one domain; else as few domains as it goes."""


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """What a pod says of its group."""

    name: str
    least: int = 0
    """How many pods must get their devices together; 0: invalid, or another object says it."""
    most: int | None = None
    """How many pods may have devices at once; None: all."""
    topology: GroupTopology | None = None
    index: tuple[int, ...] = ()
    """Its place among the group's pods: that of its Job, and its own; empty if it has none."""
    size_at: str = LEAST
    """The annotation that says `least`."""
    leader: bool = False
    """Whether it leads the pods of a LeaderWorkerSet."""
    flaw: str = ""
    """What is wrong, naming the annotation."""

    @property
    def native(self) -> bool:
        """Whether the group is a PodGroup object, which says its size."""
        return self.name.startswith(NATIVE)

    @property
    def goes_first(self) -> bool:
        """Whether it may have its devices before the workers exist; these say how many the group needs then."""
        return self.leader and self.size_at == LEAST and self.least == 1

    @classmethod
    def from_json(cls, metadata: Json, spec: Json) -> "GroupMembership | None":
        """Read a pod's metadata and spec; None for a pod of no group."""
        labels = reading.table(metadata, "labels", at="metadata")
        group = reading.table(spec, "schedulingGroup", at="spec") if "schedulingGroup" in spec else {}
        if not labels and not group:
            return None
        said = reading.table(metadata, "annotations", at="metadata")
        found = _name(labels, said, group)
        if found is None:
            return None
        name, size_at = found
        try:
            least = 0 if name.startswith(NATIVE) else _count(size_at, said)
            most = _count(MOST, said) if MOST in said else None
            topology = _topology(said)
        except ValueError as error:
            return cls(name, size_at=size_at, flaw=str(error))
        index = _index(labels, said)
        if most is not None and most < least:
            flaw = f"{_at(MOST)} is {most}, less than the {least} of {_at(size_at)}"
            return cls(name, size_at=size_at, flaw=flaw)
        leader = name.startswith(LEADER_WORKER_SET) and labels.get(_LWS + "worker-index") == "0"
        return cls(name, least, most, topology, index, size_at, leader)


def _name(labels: Json, said: Json, group: Json) -> tuple[str, str] | None:
    """Return the group's name, and the annotation with its size."""
    if _text(labels, GROUP):
        return _text(labels, GROUP), LEAST
    if _text(labels, _KUEUE):
        one_by_one = any(said.get(key) == "true" for key in _ONE_BY_ONE)
        return None if one_by_one else (_text(labels, _KUEUE), _KUEUE_TOTAL)
    if _text(group, "podGroupName"):
        return NATIVE + _text(group, "podGroupName"), LEAST
    if _text(labels, _LWS + "name") and _text(labels, _LWS + "group-index"):
        name = f"{LEADER_WORKER_SET}{_text(labels, _LWS + 'name')}-{_text(labels, _LWS + 'group-index')}"
        return name, LEAST if LEAST in said else _LWS + "size"
    if _text(labels, _JOBSET + "jobset-name") and LEAST in said:
        return f"jobset/{_text(labels, _JOBSET + 'jobset-name')}", LEAST
    return None


def _text(table: Json, key: str) -> str:
    found = table.get(key)
    return found if isinstance(found, str) else ""


def _count(annotation: str, said: Mapping[str, object]) -> int:
    """Return a number of pods; raises ValueError naming the annotation."""
    text = said.get(annotation)
    if text is None:
        raise ValueError(f"{_at(annotation)} is missing: how many pods the group needs")
    number = _number(text)
    if not 0 < number < _MOST_PODS:
        raise ValueError(f"{_at(annotation)} is {str(text)[:40]!r}, not a number from 1 to {_MOST_PODS - 1}")
    return number


def _number(text: object) -> int:
    """Return a number, -1 where there is none. Kubernetes reads ASCII digits only."""
    found = text if isinstance(text, str) else ""
    return int(found) if found.isascii() and found.isdecimal() and len(found) < len(str(_MOST_PODS)) else -1


def _topology(said: Json) -> GroupTopology | None:
    """Return how close the pods have to be; raises ValueError naming the annotation."""
    asked = [(key, _text(said, key)) for key in (TOPOLOGY, KUEUE_REQUIRED, KUEUE_PREFERRED) if key in said]
    if not asked:
        if MODE in said:
            raise ValueError(f"{_at(MODE)} needs {_at(TOPOLOGY)}: the key of a node label")
        return None
    if len(asked) > 1:
        raise ValueError(f"{_at(asked[0][0])} and {_at(asked[1][0])} exclude each other")
    [(annotation, label)] = asked
    if not label:
        raise ValueError(f"{_at(annotation)} is empty, not the key of a node label")
    mode = _text(said, MODE) if annotation == TOPOLOGY and MODE in said else "Preferred"
    if mode not in ("Required", "Preferred"):
        raise ValueError(f"{_at(MODE)} is {mode[:40]!r}, not Required or Preferred")
    return GroupTopology(label, required=annotation == KUEUE_REQUIRED or mode == "Required")


def _index(labels: Json, said: Json) -> tuple[int, ...]:
    def first(keys: tuple[str, ...]) -> int:
        return next((found for key in keys if (found := _number(labels.get(key) or said.get(key))) >= 0), -1)

    of_job, own = first(_GREATER_INDEXES), first(_INDEXES)
    return (max(of_job, 0), max(own, 0)) if of_job >= 0 or own >= 0 else ()


def _at(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
