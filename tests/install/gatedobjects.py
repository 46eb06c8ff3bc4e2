"""Pods and claims for the admission policies, and what the server stored of them."""

import copy

from testbed.api import Json
from testbed.controlplane import ControlPlane

CLAIM_SPEC: Json = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.apportion.dev"}}]}
}


async def make_pod(cluster: ControlPlane, namespace: str, spec: Json, **metadata: object) -> Json:
    """Make a pod of this spec and return what the server stored."""
    body = {"metadata": {"generateName": "p-", **metadata}, "spec": spec}
    return await cluster.api.create(f"/api/v1/namespaces/{namespace}/pods", body, fieldValidation="Strict")


async def make_claim(cluster: ControlPlane, namespace: str, **metadata: object) -> Json:
    """Make a claim and return what the server stored."""
    body = {"metadata": {"generateName": "c-", **metadata}, "spec": CLAIM_SPEC}
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    return await cluster.api.create(path, body, fieldValidation="Strict")


def comparable(found: Json) -> Json:
    """Return an object without what differs between any two objects."""
    kept = copy.deepcopy(found)
    for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"):
        del kept["metadata"][name]
    for volume in kept["spec"].get("volumes", []):
        volume["name"] = "token"
    for container in kept["spec"].get("containers", []):
        for mount in container["volumeMounts"]:
            mount["name"] = "token"
    return kept
