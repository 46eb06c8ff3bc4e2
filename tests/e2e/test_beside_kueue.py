"""Beside the real Kueue: it decides when a Job may start, by quota on DeviceClasses; apportion gives the devices."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import h100
from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.kueue import Kueue
from tests.e2e.tenant import (
    GPU,
    LEASE,
    MANAGED,
    MIG,
    Tenant,
    devices,
    pod,
    profile,
    request,
    serving,
    used_twice,
)

QUEUE, WHOLE, PARTS = "shared", "whole-gpus", "small-partitions"
QUOTA = {WHOLE: 3, PARTS: 2}
JOBS = "/apis/batch/v1"


@pytest.fixture(scope="module")
async def kueue(binaries: Binaries, kueue_program: Path) -> AsyncIterator[tuple[Kueue, Installation]]:
    """Install both on a control plane of their own: Kueue's webhooks look at every Job."""
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(cluster, [h100("h100-a")], operator_options=LEASE) as installed,
        Kueue(cluster, kueue_program, {WHOLE: [GPU], PARTS: [MIG]}) as beside,
    ):
        await serving(installed)
        await beside.make_queue(QUEUE, QUOTA)
        yield beside, installed


@pytest.fixture
async def team(kueue: tuple[Kueue, Installation]) -> AsyncIterator[Tenant]:
    """Make a managed namespace with a LocalQueue."""
    beside, installed = kueue
    name = await installed.cluster.make_namespace("team", MANAGED)
    await beside.let_in(name, QUEUE)
    await installed.cluster.api.create(
        f"/apis/resource.k8s.io/v1/namespaces/{name}/resourceclaimtemplates", _template("gpu", request(GPU))
    )
    await installed.cluster.api.create(
        f"/apis/resource.k8s.io/v1/namespaces/{name}/resourceclaimtemplates",
        _template("small", request(MIG, profile("1g.10gb"))),
    )
    tenant = Tenant(installed, name)
    yield tenant
    await tenant.empty()
    await installed.cluster.drop_namespace(name)


def _template(name: str, *requests: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def _job(name: str, template: str) -> Json:
    made = pod(name, "device")
    made["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": template}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": QUEUE}},
        "spec": {"template": {"spec": made["spec"]}},
    }


@pytest.mark.slow
async def test_jobs_run_as_quota_allows_and_each_has_devices(
    team: Tenant, kueue: tuple[Kueue, Installation]
) -> None:
    """Kueue admits three whole GPUs and two partitions; what it counts and what is allocated agree whenever nothing moves; who waits comes next."""
    beside, installed = kueue
    api = installed.cluster.api
    path = f"{JOBS}/namespaces/{team.namespace}/jobs"
    for number in range(5):
        await api.create(path, _job(f"whole-{number}", "gpu"))
    for number in range(3):
        await api.create(path, _job(f"part-{number}", "small"))

    async def running() -> set[str]:
        pods, _ = await api.items(f"/api/v1/namespaces/{team.namespace}/pods")
        return {
            each["metadata"]["labels"]["job-name"]
            for each in pods
            if each.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in each["metadata"]
        }

    async def split() -> tuple[int, int]:
        """Return how many claims have a whole GPU, and how many a partition; never do two have one device."""
        claims, _ = await api.items(f"/apis/resource.k8s.io/v1/namespaces/{team.namespace}/resourceclaims")
        held = [each for each in claims if devices(each)]
        assert used_twice(held) == []
        wholes = sum("mig" not in devices(each)[0] for each in held)
        return wholes, len(held) - wholes

    async def counted() -> tuple[int, int]:
        return await beside.usage(QUEUE, WHOLE), await beside.usage(QUEUE, PARTS)

    served: set[str] = set()
    for most in (5, 3):
        now = await eventually(running, partial(_has, most), within=60)
        # The claims of the Jobs before go when their pods are gone, which nobody waits for who has devices of his own.
        await eventually(split, partial(_is, (3, 2) if most == 5 else (2, 1)))
        await eventually(counted, partial(_is, await split()))
        served |= now
        for name in now:
            await api.delete_all(path, fieldSelector=f"metadata.name={name}", propagationPolicy="Background")
        await eventually(running, partial(_without, now), within=60)
    assert len(served) == 8


def _is(wanted: tuple[int, int], found: tuple[int, int]) -> bool:
    return found == wanted


def _has(number: int, running: set[str]) -> bool:
    return len(running) == number


def _without(names: set[str], running: set[str]) -> bool:
    return not names & running
