"""Pod Security admission, as a real API server does it: the operator passes `restricted`; the agent, which cuts cards, needs `privileged`."""

from typing import Any

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from tests.install.refusal import refused
from tests.install.rendered import rendered
from tests.install.supportedversions import OnDefault, OnOldest

POLICY = "pod-security.kubernetes.io/enforce"


class PodSecurity:
    async def test_the_operator_is_admitted_where_restricted_is_enforced(
        self, cluster: ControlPlane, binaries: Binaries
    ) -> None:
        """Not root, no capability, no escalation, the runtime's system call filter, nothing of the host."""
        pod = _pod(binaries, "Deployment")
        namespace = await _namespace(cluster, "restricted")
        made = await _create(cluster, namespace, pod)
        assert made["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for field in ("runAsNonRoot", "seccompProfile"):
            less = {**pod["spec"], "securityContext": {**pod["spec"]["securityContext"], field: None}}
            with refused(f'violates PodSecurity "restricted:latest": {_SAYS[field]}', status=403):
                await _create(cluster, namespace, {**pod, "spec": less})
        await cluster.drop_namespace(namespace)

    async def test_the_agent_is_admitted_where_privileged_is_allowed_alone(
        self, cluster: ControlPlane, binaries: Binaries
    ) -> None:
        """So the namespace of both says privileged."""
        pod = _pod(binaries, "DaemonSet")
        for level in ("restricted", "baseline"):
            namespace = await _namespace(cluster, level)
            with refused(f'violates PodSecurity "{level}:latest"', status=403):
                await _create(cluster, namespace, pod)
            await cluster.drop_namespace(namespace)
        (ours,) = [item for item in rendered(binaries, "manifests") if item["kind"] == "Namespace"]
        namespace = await _namespace(cluster, ours["metadata"]["labels"][POLICY])
        await _create(cluster, namespace, pod)
        await cluster.drop_namespace(namespace)


_SAYS = {"runAsNonRoot": "runAsNonRoot != true", "seccompProfile": "seccompProfile"}


def _pod(binaries: Binaries, kind: str) -> Json:
    (found,) = [item for item in rendered(binaries, "manifests") if item["kind"] == kind]
    pod: Json = found["spec"]["template"]
    return {
        "metadata": {**pod["metadata"], "name": "p"},
        "spec": {**pod["spec"], "serviceAccountName": "default"},
    }


async def _namespace(cluster: ControlPlane, level: str) -> str:
    return await cluster.make_namespace(level, {POLICY: level})


async def _create(cluster: ControlPlane, namespace: str, pod: Json) -> dict[str, Any]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return await cluster.api.create(path, pod, dryRun="All", fieldValidation="Strict")


def test_replicas_are_spread_and_a_drain_leaves_one(binaries: Binaries) -> None:
    """Of the current ReplicaSet; a replica that is not ready holds no drain up."""
    objects = rendered(binaries, "manifests")
    (operator,) = [item for item in objects if item["kind"] == "Deployment"]
    (budget,) = [item for item in objects if item["kind"] == "PodDisruptionBudget"]
    template = operator["spec"]["template"]
    (spread,) = template["spec"]["topologySpreadConstraints"]
    labels = template["metadata"]["labels"]
    assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    assert spread["matchLabelKeys"] == ["pod-template-hash"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert budget["spec"]["minAvailable"] == operator["spec"]["replicas"] - 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


class TestPodSecurity(OnDefault, PodSecurity):
    pass


class TestPodSecurityOnOldest(OnOldest, PodSecurity):
    pass
