"""Everything is given back before apportion is uninstalled."""

import asyncio
from http import HTTPStatus

import pytest

from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.installation import REPOSITORY, until_served
from tests.bench.running import program

PARTITIONS = "/apis/apportion.dev/v1alpha1/partitions"
RESOURCE = "/apis/resource.k8s.io/v1"


@pytest.fixture(autouse=True)
async def kinds(control_plane: ControlPlane) -> None:
    """Have our kinds served: a moment after they were applied, not at once."""
    await control_plane.kubectl("apply", "--server-side", "-k", str(REPOSITORY / "crds"))
    await until_served(control_plane)


@pytest.fixture(autouse=True)
async def nobody_has_devices(control_plane: ControlPlane) -> None:
    """Other tests on this control plane leave claims that name pods without an end: these would be waited for."""
    claims, _ = await control_plane.api.items(f"{RESOURCE}/resourceclaims")
    for claim in claims:
        if claim.get("status", {}).get("reservedFor"):
            metadata = claim["metadata"]
            path = f"{RESOURCE}/namespaces/{metadata['namespace']}/resourceclaims/{metadata['name']}/status"
            try:
                await control_plane.api.patch(path, {"status": {"reservedFor": None}})
            except ApiError as error:
                # The namespace of an earlier test is still being deleted, and its claims with it.
                if error.status != HTTPStatus.NOT_FOUND:
                    raise


async def release(cluster: ControlPlane, *options: str) -> tuple[int, str]:
    """Run the command as a person would."""
    done = await asyncio.to_thread(
        program, "apportion", "release", "--kubeconfig", cluster.kubeconfig, *options
    )
    return done.returncode, done.stdout + done.stderr


def partition(name: str) -> dict[str, object]:
    return {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "Partition",
        "metadata": {"name": name, "finalizers": ["apportion.dev/agent"]},
        "spec": {
            "nodeName": "gone",
            "driver": "gpu.apportion.dev",
            "pool": "gone",
            "device": "gpu-0-mig-1g10gb-19-0",
            "parent": "gpu-0",
            "profile": "1g.10gb",
            "origin": "Warm",
        },
    }


async def test_gates_open_and_finalizers_go(control_plane: ControlPlane, namespace: str) -> None:
    """Others' gates and finalizers stay."""
    core, resource = f"/api/v1/namespaces/{namespace}", f"/apis/resource.k8s.io/v1/namespaces/{namespace}"
    gates = [{"name": "other/gate"}, {"name": "apportion.dev/allocation"}]
    spec = {"schedulingGates": gates, "containers": [{"name": "c", "image": "none"}]}
    await control_plane.api.create(f"{core}/pods", {"metadata": {"name": "p"}, "spec": spec})
    requests = [{"name": "r", "exactly": {"deviceClassName": "none"}}]
    metadata = {"name": "c", "finalizers": ["apportion.dev/allocation", "other.example.com/keep"]}
    claim = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
    await control_plane.api.create(f"{resource}/resourceclaims", claim)

    code, output = await release(control_plane, "--namespace", namespace)

    assert (code, "1 gates opened" in output) == (0, True), output
    pod = await control_plane.api.get(f"{core}/pods/p")
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["other/gate"]
    found = await control_plane.api.get(f"{resource}/resourceclaims/c")
    assert found["metadata"]["finalizers"] == ["other.example.com/keep"]
    await control_plane.api.patch(f"{resource}/resourceclaims/c", {"metadata": {"finalizers": []}})


async def test_a_partition_whose_agent_does_not_answer_is_named_and_dropped_only_by_force(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Its hardware may still be cut, so somebody has to say so."""
    await control_plane.api.create(PARTITIONS, partition("gone-part"))
    code, output = await release(control_plane, "--namespace", namespace, "--patience", "0.5")
    assert (code, "left: partition gone-part" in output) == (1, True), output
    code, output = await release(control_plane, "--namespace", namespace, "--patience", "0.5", "--force")
    assert code == 0, output
    assert (await control_plane.api.items(PARTITIONS))[0] == []


async def test_pods_that_come_after_it_get_no_gate(control_plane: ControlPlane, namespace: str) -> None:
    """What admission gates between this and the uninstallation would wait for ever: nobody is left who opens it."""
    admission = str(REPOSITORY / "manifests/base/admission.yaml")
    await control_plane.kubectl("apply", "-f", admission)
    try:
        managed = {"metadata": {"labels": {"apportion.dev/managed": "true"}}}
        await control_plane.api.patch(f"/api/v1/namespaces/{namespace}", managed)
        pods = f"/api/v1/namespaces/{namespace}/pods"
        await eventually(lambda: gated(control_plane, pods))

        code, output = await release(control_plane, "--namespace", namespace)

        assert code == 0, output
        assert not await gated(control_plane, pods)
        found, _ = await control_plane.api.items(pods)
        assert [each["metadata"]["name"] for each in found if each["spec"].get("schedulingGates")] == []
    finally:
        await control_plane.kubectl("delete", "--ignore-not-found", "-f", admission)


async def test_a_claim_in_deletion_that_is_in_use_keeps_nobody_from_it(
    control_plane: ControlPlane, namespace: str
) -> None:
    """The API server lets nobody add a finalizer to it: it keeps ours until its pod has ended, and the others lose theirs."""
    api, core = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
    user = await api.create(
        core, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    )
    requests = [{"name": "r", "exactly": {"deviceClassName": "none"}}]
    for name in ("a-deleted", "b-waits"):
        metadata = {"name": name, "finalizers": ["apportion.dev/allocation"]}
        await api.create(claims, {"metadata": metadata, "spec": {"devices": {"requests": requests}}})
    device = {"request": "r", "driver": "gpu.apportion.dev", "pool": "n", "device": "gpu-0"}
    reserved = {"resource": "pods", "name": "p", "uid": user["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": [reserved]}
    await api.patch(f"{claims}/a-deleted/status", {"status": status})
    await api.delete(f"{claims}/a-deleted")
    try:
        code, output = await release(control_plane, "--namespace", namespace, "--patience", "0")
        assert (code, f"left: claim {namespace}/a-deleted, used by pods/p" in output) == (1, True), output
        assert not (await api.get(f"{claims}/b-waits"))["metadata"].get("finalizers")
        assert (await api.get(f"{claims}/a-deleted"))["metadata"]["finalizers"] == [
            "apportion.dev/allocation"
        ]

        ending = asyncio.create_task(release(control_plane, "--namespace", namespace, "--patience", "30"))
        await asyncio.sleep(1)
        await api.patch(f"{claims}/a-deleted/status", {"status": {"reservedFor": None}})
        code, output = await ending
        assert code == 0, output
        assert "a-deleted" not in {each["metadata"]["name"] for each in (await api.items(claims))[0]}
    finally:
        await control_plane.kubectl("delete", "-n", namespace, "pod", "p", "--force")


async def gated(cluster: ControlPlane, pods: str) -> bool:
    """Make a pod with a claim, and say whether it got a gate."""
    uses = [{"name": "c", "resourceClaimName": "c"}]
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": "c"}]}}
    made = await cluster.api.create(
        pods,
        {"metadata": {"generateName": "p-"}, "spec": {"resourceClaims": uses, "containers": [container]}},
    )
    return bool(made["spec"].get("schedulingGates"))
