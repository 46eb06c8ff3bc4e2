"""The storm: 200 pods and 20 standalone claims on 20 nodes, while operators, an agent and pods are taken away."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Final

import pytest

from testbed.binaries import Binaries
from testbed.checker import Checker, settled
from testbed.controlplane import ControlPlane
from testbed.installation import Installation
from tests.storm import workload
from tests.storm.load import Load, complaints, figures

POLICIES: Final = "/apis/apportion.dev/v1alpha1/allocationpolicies"
_SEED = 20260701


@pytest.fixture
async def load(binaries: Binaries) -> AsyncIterator[Load]:
    """Give a control plane of its own with twenty nodes."""
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(
            cluster,
            workload.nodes(),
            operator_options=("--lease-duration", "9"),
            kubelet_options={"stop_seconds": 2.0},
        ) as installation,
        Checker(installation) as checker,
    ):
        namespace = await cluster.make_namespace("storm", {"apportion.dev/managed": "true"})
        classes = [f"{kind}.apportion.dev" for kind in ("gpu", "mig", "npu", "vnpu", "rdma")]
        policy = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "AllocationPolicy",
            "metadata": {"name": "storm"},
            "spec": {
                "deviceClasses": {"names": classes},
                "partitions": {"idleTimeout": "2s"},
                "unusedTimeout": "5s",
            },
        }
        await cluster.api.create(POLICIES, policy)
        yield Load(cluster, installation, checker, namespace)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_no_device_is_used_twice_whatever_is_killed(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every pod that stays gets its devices and its node, and in the end everything is free again."""
    checker = load.checker
    choose = random.Random(_SEED)  # noqa: S311 - no secret, but the same choice every time
    load.kill_at(20, 60, 100, 140, 175)
    await load.create("resourceclaimtemplates", workload.templates())

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.create("resourceclaims", workload.standalone_claims()))
        group.create_task(load.create("pods", [*workload.template_pods(), *workload.standalone_pods()]))
        group.create_task(load.without_an_agent(at=10))
        group.create_task(load.delete_by_force(70, "t-", 6, choose))
        group.create_task(load.delete_by_force(110, "s-", 8, choose))
        group.create_task(load.delete_by_force(150, "t-", 6, choose))
    try:
        await settled(checker, load.not_running, within=120)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{await load.warnings()}") from None
    all_run = time.monotonic() - began
    await settled(checker, checker.at_rest, within=30)

    assert load.kills == 5
    assert len(load.killed) == 20
    assert load.waited, "no pod waited for the agent that was away"

    began = time.monotonic()
    await load.cluster.api.delete_all(f"/api/v1/namespaces/{load.namespace}/pods")
    await settled(checker, load.not_released, within=90)
    await settled(checker, checker.at_rest, within=30)
    await load.cluster.api.delete_all(f"/apis/resource.k8s.io/v1/namespaces/{load.namespace}/resourceclaims")
    await settled(checker, load.not_gone, within=90)
    all_free = time.monotonic() - began

    with capsys.disabled():
        print(figures(load, all_run, all_free))  # noqa: T201 - for people who watch
    assert complaints(load) == []
