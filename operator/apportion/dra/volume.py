"""The fields of volumes that decide on which nodes a pod can run (core/v1, storage.k8s.io/v1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.dra import reading
from apportion.dra.node import Resources, resources
from apportion.dra.podrelations import label_selector
from apportion.dra.reading import Json
from apportion.dra.selection import NodeSelector, Requirement, Term
from apportion.dra.volumezones import VolumeZones

_BOUND = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation of old objects; it goes before the field (`GetPersistentVolumeClaimClass`, `GetPersistentVolumeClass` of component-helpers)."""


def _storage_class(metadata: Json, spec: Json) -> str:
    annotated = reading.table(metadata, "annotations", at="metadata").get(_STORAGE_CLASS)
    if isinstance(annotated, str):
        return annotated
    return reading.text(spec, "storageClassName", at="spec", default="")


def _kind(spec: Json) -> tuple[str, str]:
    """Return volume mode and attributes class; an object of an old API server has no mode (`CheckVolumeModeMismatches`)."""
    mode = reading.text(spec, "volumeMode", at="spec", default="Filesystem")
    return mode, reading.text(spec, "volumeAttributesClassName", at="spec", default="")


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """One PersistentVolumeClaim in one version."""

    namespace: str
    name: str
    uid: str = ""
    volume: str | None = None
    """`spec.volumeName`, once bound."""
    prebound: bool = False
    """Whether it names a volume and is not bound to it yet, which the controller does without a pod."""
    storage_class: str = ""
    selected_node: str | None = None
    """The node on which kube-scheduler has its volume made."""
    requests: Resources = field(default_factory=dict)
    modes: frozenset[str] = frozenset()
    """`spec.accessModes`."""
    labels: tuple[Requirement, ...] = ()
    """What labels of a volume must be (`spec.selector`)."""
    kind: tuple[str, str] = ("Filesystem", "")
    """`spec.volumeMode` and `spec.volumeAttributesClassName`; a volume must have the same."""
    owner: str = ""
    """The UID of the object that controls it: of an ephemeral volume, its pod's."""
    lost: bool = False
    """Whether its volume is gone for good (`status.phase: Lost`)."""
    deleting: bool = False

    @classmethod
    def from_json(cls, raw: Json) -> "PersistentVolumeClaim":
        """Read a PersistentVolumeClaim; raises BrokenInput naming the field."""
        metadata, spec = reading.table(raw, "metadata"), reading.table(raw, "spec")
        annotations = reading.table(metadata, "annotations", at="metadata")
        named = reading.text(spec, "volumeName", at="spec", default="") or None
        wanted = reading.table(reading.table(spec, "resources", at="spec"), "requests", at="spec.resources")
        return cls(
            namespace=reading.text(metadata, "namespace", at="metadata", default=""),
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            volume=named if _BOUND in annotations else None,
            prebound=named is not None and _BOUND not in annotations,
            storage_class=_storage_class(metadata, spec),
            selected_node=reading.text(annotations, _SELECTED_NODE, default="") or None,
            requests=resources(wanted, "spec.resources.requests"),
            modes=frozenset(reading.words(spec, "accessModes", at="spec")),
            labels=label_selector(spec, "selector", at="spec") or (),
            kind=_kind(spec),
            owner=next(
                (
                    reading.text(row, "uid", at=path)
                    for path, row in reading.rows(metadata, "ownerReferences", at="metadata")
                    if row.get("controller")
                ),
                "",
            ),
            lost=reading.table(raw, "status").get("phase") == "Lost",
            deleting=metadata.get("deletionTimestamp") is not None,
        )

    @property
    def size(self) -> int:
        """How much it asks for, in bytes."""
        return self.requests.get("storage", 0)

    @property
    def asks(self) -> tuple[object, ...]:
        """All that decides which volumes that are for nobody yet it may be bound to (hashable)."""
        return self.storage_class, self.size, self.kind, self.modes, self.labels


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """One PersistentVolume in one version."""

    name: str
    uid: str = ""
    nodes: NodeSelector | None = None
    """`spec.nodeAffinity.required`; None: every node."""
    storage_class: str = ""
    capacity: Resources = field(default_factory=dict)
    modes: frozenset[str] = frozenset()
    claim: tuple[str, str] | None = None
    """Namespace and name of the claim that it is bound to, or kept for."""
    claim_uid: str = ""
    """The UID of that claim; empty: whichever has the name. A volume that a deleted claim has left has the UID of that one."""
    labels: Mapping[str, str] = field(default_factory=dict)
    zones: VolumeZones = field(default_factory=VolumeZones)
    kind: tuple[str, str] = ("Filesystem", "")
    """`spec.volumeMode` and `spec.volumeAttributesClassName`."""
    available: bool = False
    """Whether the controller says that a claim may have it (`status.phase: Available`)."""
    deleting: bool = False

    @classmethod
    def from_json(cls, raw: Json) -> "PersistentVolume":
        """Read a PersistentVolume; raises BrokenInput naming the field."""
        metadata, spec = reading.table(raw, "metadata"), reading.table(raw, "spec")
        required = reading.table(
            reading.table(spec, "nodeAffinity", at="spec"), "required", at="spec.nodeAffinity"
        )
        claim = reading.table(spec, "claimRef", at="spec")
        labels = dict(reading.table(metadata, "labels", at="metadata"))
        return cls(
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            nodes=NodeSelector.from_json(required, "spec.nodeAffinity.required") if required else None,
            storage_class=_storage_class(metadata, spec),
            capacity=resources(reading.table(spec, "capacity", at="spec"), "spec.capacity"),
            modes=frozenset(reading.words(spec, "accessModes", at="spec")),
            claim=(
                reading.text(claim, "namespace", at="spec.claimRef", default=""),
                reading.text(claim, "name", at="spec.claimRef", default=""),
            )
            if claim
            else None,
            claim_uid=reading.text(claim, "uid", at="spec.claimRef", default=""),
            labels=labels,
            zones=VolumeZones.of(labels),
            kind=_kind(spec),
            available=reading.table(raw, "status").get("phase") == "Available",
            deleting=metadata.get("deletionTimestamp") is not None,
        )

    @property
    def size(self) -> int:
        """How much it holds, in bytes."""
        return self.capacity.get("storage", 0)

    def is_kept_for(self, claim: PersistentVolumeClaim) -> bool:
        """Say whether it is for a claim of this name, and not for an earlier one of the same name (`volume.IsVolumeBoundToClaim` of component-helpers)."""
        return self.claim == (claim.namespace, claim.name) and self.claim_uid in ("", claim.uid)

    def suits(self, claim: PersistentVolumeClaim) -> bool:
        """Say whether a claim that waits for a volume may be bound to it (`volume.FindMatchingVolume` of component-helpers)."""
        if self.storage_class != claim.storage_class or self.size < claim.size:
            return False
        if self.kind != claim.kind or self.deleting:
            return False
        return self.is_kept_for(claim) or (
            self.claim is None
            and self.available
            and claim.modes <= self.modes
            and all(each.matches(self.labels.get(each.key)) for each in claim.labels)
        )


@dataclass(frozen=True, slots=True)
class StorageClass:
    """One StorageClass in one version."""

    name: str
    uid: str = ""
    waits: bool = False
    """Whether a volume is made only when the pod has a node (`volumeBindingMode: WaitForFirstConsumer`)."""
    provisions: bool = True
    """Whether volumes are made for it at all."""
    nodes: NodeSelector | None = None
    """`allowedTopologies`; None: every node."""

    @classmethod
    def from_json(cls, raw: Json) -> "StorageClass":
        """Read a StorageClass; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        terms = tuple(
            Term(
                tuple(
                    Requirement(reading.text(row, "key", at=at), "In", reading.words(row, "values", at=at))
                    for at, row in reading.rows(term, "matchLabelExpressions", at=path)
                )
            )
            for path, term in reading.rows(raw, "allowedTopologies")
        )
        return cls(
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            waits=reading.text(raw, "volumeBindingMode", default="Immediate") == "WaitForFirstConsumer",
            provisions=reading.text(raw, "provisioner", default="") != _NO_PROVISIONER,
            nodes=NodeSelector(terms) if terms else None,
        )
