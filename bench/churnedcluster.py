"""A churned cluster as the operator observes it: every claim has a pod of its own that runs, and that a controller would make anew.

In: what `bench.defrag` leaves of a scenario. Out: the operator's snapshot of it, and the DefragPolicy in it.
"""

from typing import Any

from apportion.allocator.state import State
from apportion.api.defrag import DefragPolicy
from apportion.cluster.kinds import CLAIMS, CLASSES, DEFRAGS, NODES, PODS, SLICES
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from bench.observed import ROOM, Json, managed, observe
from testbed.cycle import MANAGER

WHOLE = "gpu.nvidia.com"
"""The scenario's DeviceClass of whole cards."""
_SINCE = "2026-01-01T00:00:00Z"
_REQUESTS = {"cpu": "4", "memory": "16Gi"}
_WRITTEN = {
    "manager": MANAGER,
    "operation": "Update",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:status": {"f:allocation": {}}},
    "subresource": "status",
}


def observed(content: Json, held: dict[str, DeviceId], spec: Json) -> tuple[Snapshot, DefragPolicy]:
    """Return the snapshot of a scenario in which these claims have these devices, and a policy with this spec."""
    snapshot = Snapshot(State(), wake=lambda: None)
    observe(snapshot, NODES, [row | {"status": {"allocatable": ROOM}} for row in content["nodes"]])
    observe(snapshot, CLASSES, [managed(row) for row in content["classes"]])
    observe(snapshot, SLICES, content["slices"])
    claims = [row for row in content["claims"] if row["metadata"]["name"] in held]
    observe(snapshot, CLAIMS, [_claim(row, held[row["metadata"]["name"]]) for row in claims])
    observe(snapshot, PODS, [_pod(row, held[row["metadata"]["name"]].pool) for row in claims])
    snapshot.state.warm_up()
    observe(snapshot, DEFRAGS, [{"metadata": {"name": "bench", "uid": "bench"}, "spec": spec}])
    return snapshot, snapshot.defrags["bench"]


def _claim(row: Json, device: DeviceId) -> Json:
    metadata = row["metadata"]
    pod = {"name": f"pod-{metadata['name']}", "uid": f"pod-{metadata['uid']}"}
    place = {"key": "metadata.name", "operator": "In", "values": [device.pool]}
    result = {"request": "mig", "driver": device.driver, "pool": device.pool, "device": device.name}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [place]}]},
        "allocationTimestamp": _SINCE,
    }
    owners = [{"kind": "Pod", "controller": True, **pod}]
    return row | {
        "metadata": metadata | {"ownerReferences": owners, "managedFields": [_WRITTEN]},
        "status": {"allocation": allocation, "reservedFor": [{"resource": "pods", **pod}]},
    }


def _pod(row: Json, node: str) -> Json:
    metadata: dict[str, Any] = row["metadata"]
    owner = {"kind": "ReplicaSet", "name": "set", "uid": "set", "controller": True}
    return {
        "metadata": {
            "name": f"pod-{metadata['name']}",
            "namespace": metadata["namespace"],
            "uid": f"pod-{metadata['uid']}",
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "resourceClaims": [{"name": "mig", "resourceClaimTemplateName": "mig"}],
            "containers": [{"name": "main", "resources": {"requests": _REQUESTS}}],
        },
        "status": {
            "phase": "Running",
            "startTime": _SINCE,
            "resourceClaimStatuses": [{"name": "mig", "resourceClaimName": metadata["name"]}],
        },
    }
