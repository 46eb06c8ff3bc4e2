"""What decides something of an object; the rest is nobody's business but its owner's.

In: an object. Out: the same without images, commands, environment, most of its status, annotations of others, and managed fields but
that of an allocation.
"""

from collections.abc import Mapping
from typing import Any

from apportion.cluster import kinds
from apportion.dra.reading import Json

_METADATA = frozenset((
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "finalizers", "labels",
))  # fmt: skip
_ANNOTATIONS = (
    "apportion.dev/",
    "kueue.x-k8s.io/",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
)
"""Prefixes of those that decide something."""
_CONTAINER = frozenset(("resources", "restartPolicy", "ports"))
_REPORTED = frozenset(("allocatedResources", "resources"))
_POD = frozenset((
    "nodeName", "schedulingGates", "resourceClaims", "containers", "initContainers", "nodeSelector", "affinity", "tolerations",
    "topologySpreadConstraints", "priority", "preemptionPolicy", "schedulerName", "volumes", "overhead", "resources",
    "schedulingGroup", "activeDeadlineSeconds", "hostNetwork",
))  # fmt: skip
_FIELDS: Mapping[tuple[str, str], frozenset[str]] = {
    (kinds.PODS.name, "spec"): _POD,
    (kinds.PODS.name, "status"): frozenset(
        ("phase", "resourceClaimStatuses", "startTime", "resources", "allocatedResources")
    ),
    (kinds.NODES.name, "spec"): frozenset(("taints", "unschedulable")),
    (kinds.NODES.name, "status"): frozenset(("allocatable", "declaredFeatures")),
    (kinds.VOLUMES.name, "spec"): frozenset(
        (
            "claimRef",
            "nodeAffinity",
            "storageClassName",
            "capacity",
            "accessModes",
            "volumeMode",
            "volumeAttributesClassName",
        )
    ),
}
"""By kind and part of the object; of other parts all is kept."""


def needed(raw: Json) -> Json:
    """Return what decides something of an object."""
    kind, metadata = str(raw["kind"]), raw["metadata"]
    made = dict(raw)
    made["metadata"] = _metadata(metadata)
    for part in ("spec", "status"):
        fields = _FIELDS.get((kind, part))
        if fields is not None and isinstance(raw.get(part), Mapping):
            made[part] = {key: value for key, value in raw[part].items() if key in fields}
    if kind == kinds.PODS.name and "spec" in made:
        names = _reduce_pod(made["spec"], str(metadata["name"]))
        if isinstance(raw.get("status"), Mapping):
            made["status"] |= _resized(raw["status"], names)
    return made


def _metadata(metadata: Json) -> Json:
    made: dict[str, Any] = {key: value for key, value in metadata.items() if key in _METADATA}
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_ANNOTATIONS)
    }
    owners = [
        {key: value for key, value in owner.items() if key in {"kind", "name", "uid", "controller"}}
        for owner in metadata.get("ownerReferences") or ()
    ]
    allocating = [
        {"manager": row.get("manager"), "fieldsV1": {"f:status": {"f:allocation": {}}}}
        for row in metadata.get("managedFields") or ()
        if "f:allocation" in ((row.get("fieldsV1") or {}).get("f:status") or {})
    ]
    more = {"annotations": annotations, "ownerReferences": owners, "managedFields": allocating}
    return made | {key: value for key, value in more.items() if value}


def _reduce_pod(spec: dict[str, Any], pod: str) -> dict[str, str]:
    """Leave out what decides nothing; returns the new names of its containers by the old ones."""
    names: dict[str, str] = {}
    for part, name in (("containers", "container"), ("initContainers", "init")):
        if part in spec:
            names |= {str(row.get("name")): f"{name}-{number}" for number, row in enumerate(spec[part])}
            spec[part] = [
                {"name": names[str(row.get("name"))]}
                | {key: value for key, value in row.items() if key in _CONTAINER}
                for row in spec[part]
            ]
    if "volumes" in spec:
        # The claim of an ephemeral volume is named after the pod and the volume.
        spec["volumes"] = [
            {
                "name": f"volume-{number}",
                "persistentVolumeClaim": row.get("persistentVolumeClaim")
                or {"claimName": f"{pod}-{row.get('name')}"},
            }
            for number, row in enumerate(spec["volumes"])
            if row.keys() & {"persistentVolumeClaim", "ephemeral"}
        ]
    return names


def _resized(status: Json, names: Mapping[str, str]) -> Json:
    """Return what kubelet reports of a resize in place (KEP-1287)."""
    made: dict[str, Any] = {}
    for part in ("containerStatuses", "initContainerStatuses"):
        made[part] = [
            {"name": names[str(row.get("name"))]} | {key: row[key] for key in _REPORTED if key in row}
            for row in status.get(part) or ()
            if str(row.get("name")) in names and row.keys() & _REPORTED
        ]
    made["conditions"] = [
        {key: value for key, value in row.items() if key in {"type", "status", "reason"}}
        for row in status.get("conditions") or ()
        if row.get("type") == "PodResizePending"
    ]
    return {key: value for key, value in made.items() if value}
