"""Objects of the installation as the server stores them."""

import json
from pathlib import Path

from testbed.controlplane import ControlPlane


async def versions(cluster: ControlPlane, manifests: Path) -> dict[str, str]:
    """Return the resourceVersion of every object of the install that is there."""
    found = json.loads(
        await cluster.kubectl("get", "--ignore-not-found", "--kustomize", str(manifests), "--output=json")
    )
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in found["items"]
        # controller-manager counts pods in its status all the time.
        if item["kind"] != "PodDisruptionBudget"
    }
