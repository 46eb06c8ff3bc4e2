"""What a DefragPolicy's window writes to a real API server: its plan, and that it is being carried out, at once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import DEFRAGS
from testbed.controlplane import ControlPlane
from testbed.installation import until_served
from tests.defrag.planned import policies, scattered

CRDS = Path(__file__).parents[2] / "crds"
POLICIES = "/apis/apportion.dev/v1alpha1/defragpolicies"


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """Talk to an API server that knows our kinds, as administrator."""
    await control_plane.kubectl("apply", "--kustomize", str(CRDS))
    await until_served(control_plane)
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as made:
        yield made
    await control_plane.api.delete_all(POLICIES)


@pytest.mark.parametrize(
    ("mode", "reasons"), [("Recommend", ["Valid", "Planned"]), ("Evict", ["Valid", "Planned", "Running"])]
)
async def test_a_window_writes_once(
    control_plane: ControlPlane, client: Client, mode: str, reasons: list[str]
) -> None:
    """A second look has nothing to add; so nobody reads a plan that is carried out and does not say so."""
    cluster = scattered()
    free = {"wholeCards": {"deviceClass": "gpu"}}
    spec = {"free": free, "schedule": "* * * * *", "mode": mode, "cooldown": "0s"}
    body = {
        "apiVersion": DEFRAGS.api_version,
        "kind": DEFRAGS.name,
        "metadata": {"name": "tidy"},
        "spec": spec,
    }
    cluster.snapshot.observe(DEFRAGS, "ADDED", await control_plane.api.create(POLICIES, body))
    writes: list[int] = []
    leader = policies(cluster, client, client, fence=lambda: writes.append(1))
    await leader.act()
    await leader.act()
    assert len(writes) == 1
    status: dict[str, Any] = (await control_plane.api.get(f"{POLICIES}/tidy"))["status"]
    assert len(status["plan"]["moves"]) == 1
    assert [each["reason"] for each in status["conditions"]] == reasons
    assert ("campaign" in status) == (mode == "Evict")
