"""What a real kubelet makes of the agent's health stream and of the claim's status."""

from typing import Any

from testbed.eventually import eventually
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import Workload, mig


async def test_a_pod_shows_that_its_card_is_unwell_and_recovers(
    installation: RealNodeInstallation, work: Workload
) -> None:
    """Kubelet asks by itself for the stream; its word in the pod and ours in the claim are about the same device."""
    seen = await work.run("mig", mig("1g.10gb"))
    pod, claim = seen.pod["metadata"], seen.claim["metadata"]
    pod_path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}"
    claim_path = f"/apis/resource.k8s.io/v1/namespaces/{claim['namespace']}/resourceclaims/{claim['name']}"

    async def in_pod() -> list[tuple[str, str]]:
        raw: dict[str, Any] = await installation.cluster.api.get(pod_path)
        (container,) = raw["status"]["containerStatuses"]
        return [
            (resource["health"], resource.get("message", ""))
            for status in container.get("allocatedResourcesStatus", ())
            for resource in status["resources"]
        ]

    async def in_claim() -> dict[str, str]:
        raw: dict[str, Any] = await installation.cluster.api.get(claim_path)
        (entry,) = raw["status"].get("devices", [{"conditions": []}])
        return {row["type"]: row["status"] for row in entry["conditions"]}

    await eventually(in_pod, lambda rows: [health for health, _ in rows] == ["Healthy"])
    await eventually(in_claim, lambda found: found == {"Ready": "True"})
    installation.hardware.nvml.ecc(0, 1)
    try:
        rows = await eventually(in_pod, lambda rows: [health for health, _ in rows] == ["Unhealthy"])
        assert "reports errors" in rows[0][1]
        await eventually(in_claim, lambda found: found == {"Ready": "True", "Healthy": "False"})
    finally:
        installation.hardware.nvml.ecc(0, 0)
    await eventually(in_pod, lambda rows: [health for health, _ in rows] == ["Healthy"])
    await eventually(in_claim, lambda found: found == {"Ready": "True", "Healthy": "True"})
    await work.delete("mig")
