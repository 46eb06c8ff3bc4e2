"""Pods as they were written for device plugins, and classes that nobody manages: served, or told what to do."""

import asyncio
import json
import sys

from testbed.installation import Installation, product_environment
from tests.e2e.clusterobjects import bound, objects
from tests.e2e.deviceplugins import NVIDIA, asking
from tests.e2e.tenant import (
    CLASSES,
    GATE,
    MIG,
    SLICES,
    Tenant,
    claim,
    device_class,
    device_slice,
    gates,
    pod,
    request,
)
from tests.e2e.tenant import profile as mig_profile


async def test_a_pod_written_for_a_device_plugin_runs_with_its_device(team: Tenant) -> None:
    """Admission rewrites it, the operator makes the template, controller-manager the claim; the rest is as for every claim."""
    made = await team.make(asking("trains", {NVIDIA: "1"}))
    [running] = await team.running("trains")

    assert gates(made) == [GATE]
    assert running["spec"]["containers"][0]["resources"] == {
        "claims": [{"name": "gpu-apportion-dev-0"}],
        "requests": {"cpu": "100m", "memory": "64Mi"},
    }
    assert running["spec"]["resourceClaims"] == [
        {"name": "gpu-apportion-dev-0", "resourceClaimTemplateName": "apportion-1-gpu.apportion.dev"}
    ]
    [owned] = await team.claims()
    assert owned["metadata"]["ownerReferences"][0]["uid"] == running["metadata"]["uid"]


async def test_elsewhere_such_a_pod_waits_and_says_what_to_do(plain: Tenant) -> None:
    """In a namespace without the label it is a device plugin's; there is none here."""
    await plain.make(asking("trains", {NVIDIA: "1"}))

    said = await plain.event("trains", "ExtendedResource", NVIDIA, "gpu.apportion.dev", "apportion migrate")

    assert said["type"] == "Warning"
    assert "cannot allocate all claims" in await plain.unschedulable("trains")


async def test_a_class_of_ones_own_without_the_label_is_named(
    installation: Installation, plain: Tenant
) -> None:
    """Event on claim and pod: the class selects guarded devices and is not managed."""
    own = device_class("own.example.com", 'device.driver == "gpu.apportion.dev"', managed=False)
    async with objects(installation, (CLASSES, own)):
        await plain.make(claim("unlabelled", request("own.example.com")))
        await plain.make(pod("uses-it", "unlabelled"))

        for name in ("unlabelled", "uses-it"):
            await plain.event(name, "UnmanagedClass", "own.example.com", "apportion.dev/managed=true")


async def test_a_pod_with_a_claim_of_ours_and_an_extended_resource_of_others_is_bound(
    installation: Installation, team: Tenant
) -> None:
    """kube-scheduler allocates a device for the resource where one is; no node counts any."""
    theirs = device_class("spare.example.com", 'device.driver == "spare.example.com"', managed=False)
    theirs["spec"]["extendedResourceName"] = "example.com/spare"
    published = device_slice("spare", "spare.example.com", {"name": "spare-0"})
    async with objects(installation, (CLASSES, theirs), (SLICES, published)):
        await team.make(claim("ours", request(MIG, mig_profile("1g.10gb"))))
        await team.make(asking("both", {"example.com/spare": "1"}, "ours"))

        found = await bound(team, "both")
        [ours] = await team.allocated("ours")

        assert ours.split("/")[0] == found["spec"]["nodeName"]
        await team.end_by_force("both")


async def test_a_rehearsal_of_the_live_cluster_says_where_a_workload_would_run(
    installation: Installation, plain: Tenant
) -> None:
    """`apportion migrate` reads the cluster as a person may, and writes nothing."""
    cluster = installation.cluster
    await cluster.api.create(
        f"/apis/apps/v1/namespaces/{plain.namespace}/deployments",
        {
            "metadata": {"name": "trains"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "trains"}},
                "template": {
                    "metadata": {"labels": {"app": "trains"}},
                    "spec": asking("trains", {NVIDIA: "1"})["spec"] | {"restartPolicy": "Always"},
                },
            },
        },
    )
    await plain.make(asking("alone", {"nvidia.com/mig-1g.10gb": "1"}))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apportion", "migrate", "--dry-run", "-n", plain.namespace, "-o", "json"),
        *("--kubeconfig", str(cluster.kubeconfig)),
        env=product_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()

    assert process.returncode == 0
    found = {each["name"]: each for each in json.loads(output)["workloads"]}
    assert set(found) == {"trains", "alone"}
    assert all(node.startswith("h100-") for each in found.values() for node in each["nodes"])
    assert await plain.claims() == []
