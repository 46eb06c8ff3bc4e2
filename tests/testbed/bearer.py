"""Whom a credential names, and a pod that is bound to a node."""

from testbed.api import Api
from testbed.controlplane import ControlPlane


async def user_extra(kubeconfig: Api) -> dict[str, list[str]]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await kubeconfig.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    extra: dict[str, list[str]] = answer["status"]["userInfo"].get("extra", {})
    return extra


async def pod_on(control_plane: ControlPlane, namespace: str, node: str) -> str:
    made = await control_plane.api.create(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "metadata": {"generateName": "bound-"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
        },
    )
    name: str = made["metadata"]["name"]
    return name
