"""Helm installs, upgrades and removes the chart on a real API server, and takes an installation of `kubectl apply -k` over."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from tests.install.applied import versions
from tests.install.charts import CHART, NAMESPACE, Helm

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WORKLOADS = ("deployment/apportion-operator", "daemonset/apportion-agent")


@pytest.fixture(scope="module")
async def cluster(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Give a control plane without anything of ours."""
    async with ControlPlane(binaries=binaries) as cluster:
        yield cluster


@pytest.fixture
def helm(helm_program: Path, tmp_path: Path) -> Helm:
    return Helm(helm_program, tmp_path)


async def test_a_release_is_installed_upgraded_and_removed(
    cluster: ControlPlane, helm: Helm, manifests: Path
) -> None:
    """What is removed is what was installed; CRDs, and with them everybody's objects, stay."""
    await cluster.kubectl("create", "--filename", str(manifests / "base/namespace.yaml"))
    release = ("apportion", str(CHART), "--namespace", NAMESPACE)
    notes = helm.done("install", *release, kubeconfig=cluster.kubeconfig)
    assert f"kubectl label namespace {NAMESPACE} pod-security.kubernetes.io/enforce=privileged" in notes
    crds, _ = await cluster.api.items(CRDS)
    assert {each["spec"]["names"]["kind"] for each in crds} >= {"Partition", "AllocationPolicy"}
    assert await _replicas(cluster) == 2

    crds_folder = str(CHART / "crds")
    await cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename", crds_folder)
    installed = await _specified(cluster, manifests)
    values = {"operator": {"replicas": 3}, "features": {"preemption": True}}
    helm.done("upgrade", *release, values=values, kubeconfig=cluster.kubeconfig)
    upgraded = await _specified(cluster, manifests)
    changed = {name for name in installed if upgraded[name] != installed[name]}
    assert await _replicas(cluster) == 3
    assert changed == {"Deployment/apportion-operator", "ClusterRole/apportion-operator"}

    simulation = {"cards": [{"model": "H100-80GB"}]}
    values = {
        "agent": {"simulation": simulation},
        "features": {"nvidiaNames": True, "extendedResources": True, "web": True},
    }
    notes = helm.done("upgrade", *release, "--dry-run=server", values=values, kubeconfig=cluster.kubeconfig)
    assert "are simulated" in notes
    assert "docs/from-device-plugins.md" in notes
    assert f"kubectl -n {NAMESPACE} port-forward deployment/apportion-operator 8090" in notes

    helm.done("uninstall", "apportion", "--namespace", NAMESPACE, kubeconfig=cluster.kubeconfig)
    left = await versions(cluster, manifests)
    assert {name.partition("/")[0] for name in left} == {"CustomResourceDefinition", "Namespace"}


async def test_an_installation_of_the_manifests_is_taken_over(
    cluster: ControlPlane, helm: Helm, manifests: Path
) -> None:
    """Without a gap: no object is made anew."""
    await cluster.kubectl("apply", "--kustomize", str(manifests))
    before = await _uids(cluster, manifests)
    release = ("apportion", str(CHART), "--namespace", NAMESPACE)
    refused = helm.run("install", *release, kubeconfig=cluster.kubeconfig)
    assert "cannot be imported into the current release" in refused.stderr
    helm.done("install", *release, "--take-ownership", kubeconfig=cluster.kubeconfig)
    assert await _uids(cluster, manifests) == before
    helm.done("uninstall", "apportion", "--namespace", NAMESPACE, kubeconfig=cluster.kubeconfig)


async def _replicas(cluster: ControlPlane) -> int:
    found = await cluster.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/apportion-operator")
    return int(found["spec"]["replicas"])


async def _specified(cluster: ControlPlane, manifests: Path) -> dict[str, object]:
    """Return what people wrote of every object: neither statuses nor what the server counts."""
    listed = json.loads(
        await cluster.kubectl("get", "--kustomize", str(manifests), "--ignore-not-found", "--output=json")
    )
    counted = {"managedFields", "resourceVersion", "generation", "annotations"}
    return {
        f"{item['kind']}/{item['metadata']['name']}": [
            {name: value for name, value in item["metadata"].items() if name not in counted},
            {name: value for name, value in item.items() if name not in {"metadata", "status"}},
        ]
        for item in listed["items"]
    }


async def _uids(cluster: ControlPlane, manifests: Path) -> dict[str, str]:
    listed = json.loads(await cluster.kubectl("get", "--kustomize", str(manifests), "--output=json"))
    return {f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["uid"] for item in listed["items"]}
