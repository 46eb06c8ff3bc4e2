"""What decides something of an object; the rest is nobody's business but its owner's.

In: an object. Out: the same without images, commands, environment, most of its status, annotations of others, and managed fields but
that of an allocation.
"""

from collections.abc import Mapping
from typing import Any

from apportion.cluster import kinds
from apportion.dra.reading import Json, rows, table

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
    """Return what decides something of an object. Raises BrokenInput where a part of it that is looked at has another form."""
    kind, metadata = str(raw["kind"]), raw["metadata"]
    whose = " ".join(
        (kind, "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)))
    )
    made = dict(raw)
    made["metadata"] = _metadata(metadata, f"{whose}: metadata")
    for part in ("spec", "status"):
        fields = _FIELDS.get((kind, part))
        if fields is not None and part in raw:
            made[part] = {key: value for key, value in table(raw, part, at=whose).items() if key in fields}
    if kind == kinds.PODS.name and "spec" in made:
        names = _reduce_pod(made["spec"], str(metadata["name"]), f"{whose}: spec")
        if "status" in made:
            made["status"] |= _resized(table(raw, "status"), names, f"{whose}: status")
    return made


def _metadata(metadata: Json, at: str) -> Json:
    made: dict[str, Any] = {key: value for key, value in metadata.items() if key in _METADATA}
    annotations = {
        key: value
        for key, value in table(metadata, "annotations", at=at).items()
        if key.startswith(_ANNOTATIONS)
    }
    owners = [
        {key: value for key, value in owner.items() if key in {"kind", "name", "uid", "controller"}}
        for _, owner in rows(metadata, "ownerReferences", at=at)
    ]
    allocating: list[Json] = [
        {"manager": row.get("manager"), "fieldsV1": {"f:status": {"f:allocation": {}}}}
        for path, row in rows(metadata, "managedFields", at=at)
        if "f:allocation" in table(table(row, "fieldsV1", at=path), "f:status", at=path)
    ]
    more = {"annotations": annotations, "ownerReferences": owners, "managedFields": allocating}
    return made | {key: value for key, value in more.items() if value}


def _reduce_pod(spec: dict[str, Any], pod: str, at: str) -> dict[str, str]:
    """Leave out what decides nothing; returns the new names of its containers by the old ones."""
    names: dict[str, str] = {}
    for part, name in (("containers", "container"), ("initContainers", "init")):
        if part in spec:
            found = [row for _, row in rows(spec, part, at=at)]
            names |= {str(row.get("name")): f"{name}-{number}" for number, row in enumerate(found)}
            spec[part] = [
                {"name": names[str(row.get("name"))]}
                | {key: value for key, value in row.items() if key in _CONTAINER}
                for row in found
            ]
    if "volumes" in spec:
        # The claim of an ephemeral volume is named after the pod and the volume.
        spec["volumes"] = [
            {
                "name": f"volume-{number}",
                "persistentVolumeClaim": row.get("persistentVolumeClaim")
                or {"claimName": f"{pod}-{row.get('name')}"},
            }
            for number, (_, row) in enumerate(rows(spec, "volumes", at=at))
            if row.keys() & {"persistentVolumeClaim", "ephemeral"}
        ]
    return names


def _resized(status: Json, names: Mapping[str, str], at: str) -> Json:
    """Return what kubelet reports of a resize in place (KEP-1287)."""
    made: dict[str, Any] = {}
    for part in ("containerStatuses", "initContainerStatuses"):
        made[part] = [
            {"name": names[str(row.get("name"))]} | {key: row[key] for key in _REPORTED if key in row}
            for _, row in rows(status, part, at=at)
            if str(row.get("name")) in names and row.keys() & _REPORTED
        ]
    made["conditions"] = [
        {key: value for key, value in row.items() if key in {"type", "status", "reason"}}
        for _, row in rows(status, "conditions", at=at)
        if row.get("type") == "PodResizePending"
    ]
    return {key: value for key, value in made.items() if value}
