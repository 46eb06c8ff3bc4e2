"""Writes to objects that went away between the decision and the write."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from structlog.testing import capture_logs

from apportion.api.contract import AGENT_FINALIZER
from apportion.cel import Programs
from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import CLAIMS, PARTITIONS, POLICIES
from apportion.cluster.recorder import Recorder
from apportion.partitions.controller import PartitionController
from apportion.partitions.dynamicpartitions import Create, DynamicPartitions
from testbed.controlplane import ControlPlane
from testbed.installation import until_served
from tests.observedcluster import GPU, ObservedCluster
from tests.partitions.manycards import controller

CRDS = Path(__file__).parents[2] / "crds"
PLACEMENT = "gpu-0-mig-1g10gb-19-0"


async def test_a_partition_that_went_meanwhile_is_no_failure(control_plane: ControlPlane) -> None:
    """Its agent may take off the finalizer just before the operator writes: the watch is about to tell."""
    await control_plane.kubectl("apply", "--kustomize", str(CRDS))
    await until_served(control_plane)
    world = ObservedCluster()
    world.node("n1")
    world.card("n1")
    world.device_class("gpu")
    claim = world.allocate(world.claim("c"), "n1", PLACEMENT)
    (wanted,) = DynamicPartitions(lambda: 0.0).actions(world.snapshot)
    assert isinstance(wanted, Create)
    world.see(PARTITIONS, json.loads(wanted.partition.model_dump_json(by_alias=True, exclude_none=True)))
    world.gone(CLAIMS, claim)
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        fenced: list[bool] = []
        acting = PartitionController(
            client,
            world.snapshot,
            Recorder(client, component="test", clock=lambda: 0.0, now=lambda: datetime.now(UTC)),
            Programs(),
            fence=lambda: fenced.append(True),
            clock=lambda: 0.0,
            now=lambda: datetime.now(UTC),
        )
        with capture_logs() as logs:
            await acting.act()
    assert fenced
    assert [line["event"] for line in logs if line["log_level"] != "debug"] == []
    assert any("not found" in line.get("error", "") for line in logs)


async def test_partitions_of_a_node_that_is_gone_lose_our_finalizer_alone(
    control_plane: ControlPlane,
) -> None:
    """What somebody else adds between our look and our write stays, also when the write comes late."""
    await control_plane.kubectl("apply", "--kustomize", str(CRDS))
    await until_served(control_plane)
    world = ObservedCluster()
    spec = {"nodeName": "gone", "driver": GPU, "pool": "gone", "device": PLACEMENT, "parent": "gpu-0"}
    spec |= {"profile": "1g.10gb", "origin": "Claim"}
    name = f"gone-{PLACEMENT}"
    metadata = {"name": name, "finalizers": [AGENT_FINALIZER]}
    body = {"apiVersion": PARTITIONS.api_version, "kind": PARTITIONS.name, "metadata": metadata, "spec": spec}
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:

        async def observe() -> list[str]:
            found = await client.get(PARTITIONS, name)
            world.snapshot.observe(PARTITIONS, "MODIFIED", found)
            return list(found["metadata"]["finalizers"])

        acting = controller(world, client)
        await client.create(PARTITIONS, body)
        await observe()
        await acting.act()
        both = [AGENT_FINALIZER, "example.com/theirs"]
        await client.patch(PARTITIONS, name, {"metadata": {"finalizers": both}})
        world.clock.now += 61
        await acting.act()
        assert await observe() == both
        await acting.act()
        assert await observe() == ["example.com/theirs"]
        # Other tests use the same control plane.
        await client.patch(PARTITIONS, name, {"metadata": {"finalizers": None}})
        await client.delete(PARTITIONS, name)


async def test_a_policy_that_goes_while_statuses_are_compared_is_no_failure(unanswered: Client) -> None:
    """It goes after the controller has begun to act, and before the turn of its status."""
    world = ObservedCluster()
    policy = world.policy()
    acting = asyncio.ensure_future(controller(world, unanswered).act())
    asyncio.get_running_loop().call_soon(world.gone, POLICIES, policy)
    await acting
    assert not world.snapshot.policies
