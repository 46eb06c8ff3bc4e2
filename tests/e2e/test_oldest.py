"""The oldest supported Kubernetes: guard, gate, and one partition's whole life."""

from collections.abc import AsyncIterator

import pytest

from testbed import taintrules
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import DEMO_MANIFESTS, ascend, h100
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.versions import OLDEST
from tests.e2e.clusterobjects import objects
from tests.e2e.deviceplugins import NVIDIA, asking
from tests.e2e.newnode import BLUE, comes, seen_by_autoscalers
from tests.e2e.quotas import Quotas
from tests.e2e.reserved import large_pod_is_served, reserving
from tests.e2e.series import ONE_CARD, keeps_its_partition
from tests.e2e.specialpods import with_gpus
from tests.e2e.tenant import (
    GATE,
    GPU,
    LEASE,
    MANAGED,
    MIG,
    NPU,
    OWN,
    PARTITIONS,
    Tenant,
    claim,
    devices,
    gates,
    metric,
    pod,
    profile,
    request,
    serving,
)


@pytest.fixture(scope="module")
async def installation(oldest_binaries: Binaries) -> AsyncIterator[Installation]:
    """Install on the oldest version, with two nodes."""
    async with (
        ControlPlane(version=OLDEST, binaries=oldest_binaries, flags=taintrules.flags(OLDEST)) as cluster,
        Installation(
            cluster,
            [h100("gpus"), ascend("npus", "910B4")],
            operator_options=LEASE,
            manifests=DEMO_MANIFESTS,
        ) as installed,
    ):
        await serving(installed)
        yield installed


@pytest.fixture
async def namespaces(installation: Installation) -> AsyncIterator[tuple[Tenant, Tenant]]:
    """Make a managed and an unmanaged namespace; they are emptied afterwards, because later tests need whole nodes."""
    made = [await installation.cluster.make_namespace("oldest", labels) for labels in (MANAGED, {})]
    team, plain = (Tenant(installation, name) for name in made)
    yield team, plain
    for tenant in (team, plain):
        await tenant.empty()


async def test_guard_and_gate_work_there(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """Without the operator: a gated pod, and an ungated one that the scheduler cannot serve; with it, both run."""
    team, plain = namespaces
    [operator] = installation.operators
    await operator.stop()
    made = []
    for tenant in (team, plain):
        await tenant.make(claim("npu", request(NPU)))
        made.append(await tenant.make(pod("waits", "npu")))
    said = await plain.unschedulable("waits")
    before = [devices(await tenant.claim("npu")) for tenant in (team, plain)]
    operator.start()

    assert [gates(each) for each in made] == [[GATE], []]
    assert "cannot allocate all claims" in said
    assert before == [[], []]
    for tenant in (team, plain):
        await tenant.running("waits", within=60)
        await tenant.delete("Pod", "waits")


async def test_a_large_pod_is_overtaken_only_by_pods_that_end_before(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """What is reserved there is told and kept as on the newest version."""
    team, _ = namespaces
    async with reserving(installation) as reserved_class:
        await large_pod_is_served(team, reserved_class)
        await team.empty()


async def test_one_partition_lives_its_whole_life(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """Claimed, cut, used, idle, reused, removed after its idle timeout."""
    team, _ = namespaces
    api, policies = installation.cluster.api, f"{OWN}/allocationpolicies"
    brief = {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "AllocationPolicy",
        "metadata": {"name": "brief"},
        "spec": {
            "deviceClasses": {"selector": {"matchLabels": MANAGED}},
            "partitions": {"idleTimeout": "10m"},
        },
    }

    async def cut() -> list[str]:
        return [row["uuid"] for row in installation.hardware("gpus")]

    async def phase(name: str) -> str:
        try:
            found = await api.get(f"{PARTITIONS}/{name}")
        except ApiError as error:
            return "gone" if error.status == 404 else str(error)
        return f"{found.get('status', {}).get('phase')} {(found['spec'].get('holder') or {}).get('name')}"

    async with objects(installation, (policies, brief)):
        assert await cut() == []
        await team.make(claim("first", request(MIG, profile("1g.10gb"))))
        await team.make(pod("first", "first"))
        await team.running("first")
        [device] = await team.allocated("first")
        name = device.replace("/", "-")
        [uuid] = await cut()
        assert await phase(name) == "Ready first"

        for each in (("Pod", "first"), ("ResourceClaim", "first")):
            await team.delete(*each)
        assert await eventually(lambda: phase(name), lambda now: now == "Idle None") == "Idle None"
        assert await cut() == [uuid]

        await team.make(claim("second", request(MIG, profile("1g.10gb"))))
        await team.make(pod("second", "second"))
        await team.running("second")
        assert await team.allocated("second") == [device]
        assert await cut() == [uuid]

        # Short from now on: the second claim had to come before the time is over, however slow the machine is.
        await api.patch(f"{policies}/brief", {"spec": {"partitions": {"idleTimeout": "1s"}}})
        for each in (("Pod", "second"), ("ResourceClaim", "second")):
            await team.delete(*each)
        assert await eventually(lambda: phase(name), lambda now: now == "gone", within=30) == "gone"
        assert await cut() == []


async def test_a_rule_of_the_version_that_is_served_there_keeps_pods_off_devices(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """Where the beta of DeviceTaintRules is turned on, nobody gets a device that an administrator has tainted."""
    team, _ = namespaces
    api, rules = installation.cluster.api, taintrules.collection(OLDEST)
    taint = {"key": "example.com/repair", "effect": "NoSchedule"}
    made = await api.create(
        rules,
        {
            "metadata": {"name": "repair"},
            "spec": {"deviceSelector": {"driver": GPU, "pool": "gpus"}, "taint": taint},
        },
    )
    try:
        # A rule that the operator has not seen yet counts for nothing.
        await eventually(lambda: metric(installation, "apportion_cards_tainted"), within=60)
        await team.make(claim("whole", request(GPU)))
        await team.make(pod("waits", "whole"))
        await team.event("whole", "NotAllocated", "taint", "example.com/repair:NoSchedule")
    finally:
        await api.delete(f"{rules}/{made['metadata']['name']}")
    await team.running("waits")
    await team.delete("Pod", "waits")
    await team.delete("ResourceClaim", "whole")


async def test_a_pod_written_for_a_device_plugin_runs_there(namespaces: tuple[Tenant, Tenant]) -> None:
    """Rewritten and served where the namespace has the label; elsewhere it says what to do."""
    team, plain = namespaces
    await team.make(asking("trains", {NVIDIA: "1"}))
    await plain.make(asking("waits", {NVIDIA: "1"}))

    await team.running("trains")
    await plain.event("waits", "ExtendedResource", NVIDIA)
    assert "cannot allocate all claims" in await plain.unschedulable("waits")
    for tenant, name in ((team, "trains"), (plain, "waits")):
        await tenant.delete("Pod", name)


async def test_a_pod_that_no_node_could_serve_is_seen_and_served_by_a_new_node_there(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """As on the newest version."""
    team, _ = namespaces
    await team.make(claim("blue", request(GPU, BLUE)))
    await team.make(pod("blue", "blue"))

    await seen_by_autoscalers(team, "blue")
    assert (await comes(installation, team, "blue"))["spec"]["nodeName"] == "new"
    await team.end_by_force("blue")


async def test_a_claim_keeps_its_partition_between_pods_there(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """As on the newest version."""
    team, _ = namespaces
    await keeps_its_partition(installation, team, "gpus", *ONE_CARD)


async def test_a_group_gets_its_devices_together_there(
    installation: Installation, namespaces: tuple[Tenant, Tenant]
) -> None:
    """By our label; the server has no PodGroups of the version that is read, and the operator does without."""
    team, _ = namespaces
    assert await installation.cluster.api.find("/apis/scheduling.k8s.io/v1beta1/podgroups") is None
    for name in ("one", "two"):
        await with_gpus(team, name, "pair", "2", count=4)
    await team.running("one", "two")
    for name in ("one", "two"):
        await team.delete("Pod", name)
        await team.delete("ResourceClaim", name)

    for name in ("three", "four"):
        await with_gpus(team, name, "large", "2")
    await team.event("three", "ClaimsNotAllocated", "large", "8 that some of them could use are free")
    assert [gates(await team.pod(name)) for name in ("three", "four")] == [[GATE], [GATE]]


class TestQuotasOnOldest(Quotas):
    node = "gpus"
