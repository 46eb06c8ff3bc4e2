"""The fields of a Pod that decide about its claims, its node and its group (core/v1).

Of a group all pods get their devices, or none. Two conventions are read: our own, and
that of Kueue's plain pod groups (label `kueue.x-k8s.io/pod-group-name`, annotation
`kueue.x-k8s.io/pod-group-total-count`), whose gate is removed before ours.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from apportion.dra import reading
from apportion.dra.groupmembership import GroupMembership
from apportion.dra.node import Resources
from apportion.dra.podrelations import PodRelations, with_ports
from apportion.dra.podrequests import pod_requests
from apportion.dra.reading import Json, Sharing
from apportion.dra.runtime import UNDECLARED, Runtime
from apportion.dra.selection import Term, term_from_json
from apportion.dra.taint import PodToleration, Toleration
from apportion.dra.unread import Unread, without_unread

NO_RELATIONS = PodRelations()
OWN_DOMAIN = "apportion.dev/"
"""What the keys of labels and annotations begin with that are ours."""
RANK_TABLE = "apportion.dev/rank-table"
"""Annotation of a pod: the kind of the table of all ranks of its group that it asks for (HCCL)."""
HCCL_RANK_TABLE = "apportion.dev/hccl-rank-table"
"""Annotation of pods that asked for it: HCCL's rank table of their group, which the operator writes when it removes the gate."""
DEFAULT_SCHEDULER = "default-scheduler"
"""What the API server writes into `spec.schedulerName` where a user wrote nothing."""


MOST_CLAIMS_READ = 128
"""Entries of `spec.resourceClaims` that are read, of which the API allows any number: each is looked up whenever something changes about one of them."""
UNSCHEDULABLE = "Unschedulable"
"""The reason of condition PodScheduled that autoscalers look for (core/v1, PodReasonUnschedulable)."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of `spec.resourceClaims`."""

    name: str
    claim: str | None
    """Name of the ResourceClaim; None while controller-manager has not made it from its template."""
    needless: bool = False
    """controller-manager found that no claim is needed (a status entry without a claim's name)."""
    template: str = ""
    """Name of the ResourceClaimTemplate that the claim is made from; empty: of none."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The object that makes a pod anew when it is gone (the entry of `metadata.ownerReferences` with `controller: true`)."""

    kind: str
    uid: str


@dataclass(frozen=True, slots=True)
class Pod:
    """What is read of a pod: versions of it that differ in nothing of this are equal."""

    namespace: str
    name: str
    uid: str
    node: str | None = None
    """`spec.nodeName`, once bound."""
    nominated: str | None = None
    """`status.nominatedNodeName`, for which kube-scheduler keeps room; not of one that is bound, or asks for claims behind a gate."""
    gates: tuple[str, ...] = ()
    scheduled_at: int | None = None
    """Where among `status.conditions` PodScheduled is, of a pod behind a gate; the API server adds it when such a pod is made."""
    shown: bool = False
    """Whether that condition says Unschedulable though there is a gate, so that autoscalers see the pod."""
    claims: tuple[PodClaim, ...] = ()
    """The first of them, if it names very many."""
    unread_claims: int = 0
    """How many it names beside these."""
    requests: Resources = field(default_factory=dict)
    """Resources as kube-scheduler counts them: sum of containers, maximum of init containers, plus overhead; while it is resized the larger amounts."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[Term, ...] | None = None
    """Terms of the required node affinity; None: no required node affinity."""
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    preempts: bool = True
    """Whether kube-scheduler may preempt pods of lower priority for it (`spec.preemptionPolicy`)."""
    phase: str = "Pending"
    deleting: bool = False
    created: str = ""
    scheduler: str = DEFAULT_SCHEDULER
    volumes: tuple[str, ...] = ()
    """Names of its PersistentVolumeClaims."""
    ephemeral: frozenset[str] = frozenset()
    """Those of them that are made for this pod alone (KEP-1698), so that one of a former pod of its name is not its own."""
    labels: Mapping[str, str] = field(default_factory=dict)
    relations: PodRelations = NO_RELATIONS
    """What it asks of the pods beside it."""
    group: GroupMembership | None = None
    """The pod group that it belongs to."""
    started: str = ""
    """`status.startTime` (RFC 3339), from which on its runtime counts; empty: kubelet has not seen it yet."""
    runtime: Runtime = UNDECLARED
    """How long it runs at most."""
    controller: Controller | None = None
    rank_table: str = ""
    """The kind of rank table that it asks for; empty: none."""
    has_rank_table: bool = False
    """Whether a rank table was written for it."""
    own_annotations: tuple[str, ...] = ()
    """Keys of its annotations that begin with the domain of apportion."""
    unread: Unread | None = None
    """The first field of its spec that has more entries than are read."""

    @property
    def key(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether it will never again use a device."""
        return self.phase in {"Succeeded", "Failed"}

    @classmethod
    def from_json(cls, raw: Json) -> "Pod":
        """Read a Pod; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec, unread = without_unread(reading.table(raw, "spec"))
        status = reading.table(raw, "status")
        gates = tuple(
            reading.text(row, "name", at=path)
            for path, row in reading.rows(spec, "schedulingGates", at="spec")
        )
        scheduled_at, shown = _scheduled(status) if gates else (None, False)
        node = reading.text(spec, "nodeName", at="spec", default="") or None
        waits = node is not None or (gates and spec.get("resourceClaims"))
        return cls(
            namespace=reading.text(metadata, "namespace", at="metadata", default=""),
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            node=node,
            nominated=None
            if waits
            else reading.text(status, "nominatedNodeName", at="status", default="") or None,
            gates=gates,
            scheduled_at=scheduled_at,
            shown=shown,
            claims=_claims(spec, status),
            unread_claims=max(0, len(spec.get("resourceClaims") or ()) - MOST_CLAIMS_READ),
            requests=pod_requests(spec, status),
            node_selector=dict(reading.table(spec, "nodeSelector", at="spec")),
            affinity=_affinity(spec),
            tolerations=tuple(
                PodToleration.from_json(row, path)
                for path, row in reading.rows(spec, "tolerations", at="spec")
            ),
            priority=reading.number(spec, "priority", at="spec", default=0),
            preempts=spec.get("preemptionPolicy") != "Never",
            phase=reading.text(status, "phase", at="status", default="Pending"),
            deleting=metadata.get("deletionTimestamp") is not None,
            created=reading.text(metadata, "creationTimestamp", at="metadata", default=""),
            scheduler=reading.text(spec, "schedulerName", at="spec", default=DEFAULT_SCHEDULER),
            volumes=tuple(_volumes(metadata, spec)),
            ephemeral=frozenset(_ephemeral(metadata, spec)),
            labels=_LABELS.read(metadata.get("labels"), "metadata.labels", _labels),
            relations=_relations(metadata, spec),
            group=GroupMembership.from_json(metadata, spec),
            started=reading.text(status, "startTime", at="status", default=""),
            runtime=Runtime.from_json(metadata, spec),
            controller=_CONTROLLERS.read(metadata.get("ownerReferences"), "metadata", _controller),
            rank_table=_annotation(metadata, RANK_TABLE),
            has_rank_table=bool(_annotation(metadata, HCCL_RANK_TABLE)),
            own_annotations=_own(metadata),
            unread=unread,
        )


def _scheduled(status: Json) -> tuple[int | None, bool]:
    """Return where PodScheduled is among the conditions, and whether it says Unschedulable."""
    for index, (_, row) in enumerate(reading.rows(status, "conditions", at="status")):
        if row.get("type") == "PodScheduled":
            return index, row.get("reason") == UNSCHEDULABLE
    return None, False


def _claims(spec: Json, status: Json) -> tuple[PodClaim, ...]:
    made = {
        row.get("name"): row.get("resourceClaimName")
        for _, row in reading.rows(status, "resourceClaimStatuses", at="status")
    }
    found = []
    for path, row in islice(reading.rows(spec, "resourceClaims", at="spec"), MOST_CLAIMS_READ):
        name = reading.text(row, "name", at=path)
        direct = reading.text(row, "resourceClaimName", at=path, default="") or None
        template = reading.text(row, "resourceClaimTemplateName", at=path, default="")
        needless = name in made and made[name] is None
        found.append(PodClaim(name, direct or made.get(name), needless, template))
    return tuple(found)


_CONTROLLERS: Sharing[Controller | None] = Sharing(8192)


def _controller(raw: Any, at: str) -> Controller | None:
    for path, row in reading.rows({"ownerReferences": raw or []}, "ownerReferences", at=at):
        if row.get("controller"):
            return Controller(reading.text(row, "kind", at=path), reading.text(row, "uid", at=path))
    return None


def _annotation(metadata: Json, name: str) -> str:
    annotations = metadata.get("annotations")
    found = annotations.get(name) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else ""


def _own(metadata: Json) -> tuple[str, ...]:
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return ()
    return tuple([key for key in annotations if key.startswith(OWN_DOMAIN)])


_LABELS: Sharing[Mapping[str, str]] = Sharing(8192)


def _labels(raw: Any, _at: str) -> Mapping[str, str]:
    return dict(raw or {})


def _relations(metadata: Json, spec: Json) -> PodRelations:
    # Most pods have none of these, and every event of every pod comes along here.
    if not ("affinity" in spec or "topologySpreadConstraints" in spec or any(with_ports(spec))):
        return NO_RELATIONS
    found = PodRelations.from_json(reading.text(metadata, "namespace", at="metadata", default=""), spec)
    return NO_RELATIONS if found == NO_RELATIONS else found


def _volumes(metadata: Json, spec: Json) -> Iterator[str]:
    for path, row in reading.rows(spec, "volumes", at="spec"):
        if row.get("persistentVolumeClaim") is not None:
            at = f"{path}.persistentVolumeClaim"
            yield reading.text(reading.table(row, "persistentVolumeClaim", at=path), "claimName", at=at)
    yield from _ephemeral(metadata, spec)


def _ephemeral(metadata: Json, spec: Json) -> Iterator[str]:
    """Yield the names under which controller-manager makes claims for ephemeral volumes (KEP-1698)."""
    for path, row in reading.rows(spec, "volumes", at="spec"):
        if row.get("ephemeral") is not None:
            yield f"{metadata['name']}-{reading.text(row, 'name', at=path)}"


def _affinity(spec: Json) -> tuple[Term, ...] | None:
    affinity = reading.table(spec, "affinity", at="spec")
    node = reading.table(affinity, "nodeAffinity", at="spec.affinity")
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    if not node.get(key):
        return None
    at = f"spec.affinity.nodeAffinity.{key}"
    return tuple(
        term_from_json(row, path)
        for path, row in reading.rows(reading.table(node, key, at=at), "nodeSelectorTerms", at=at)
    )
