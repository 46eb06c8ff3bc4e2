"""A device is free when its container has stopped, not when its pod is gone."""

from itertools import pairwise

import pytest

from testbed.binaries import Binaries
from testbed.eventually import eventually
from testbed.podrecord import PodRecord
from testbed.violations import uses
from tests.storm import workload
from tests.storm.slownode import slow_node


@pytest.mark.slow
async def test_the_next_pod_waits_for_the_container_of_a_pod_deleted_by_force(binaries: Binaries) -> None:
    """On the only card: whole, cut, whole, and whole again. The allocation is free at once, the card is not."""
    names = {"gpu": "gpu", "mig": "1g10gb", "whole": "gpu", "again": "gpu"}
    async with slow_node(binaries, cards=1, stop_seconds=2.5) as (cluster, installation, checker):
        namespace = await cluster.make_namespace("held", {"apportion.dev/managed": "true"})
        pods = f"/api/v1/namespaces/{namespace}/pods"
        kubelet = installation.kubelets["n1"]
        for template in workload.templates():
            path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"
            await cluster.api.create(path, template)

        async def records() -> dict[str, PodRecord]:
            return {each.name: each for each in kubelet.records.values() if each.running is not None}

        async def run(name: str) -> None:
            await eventually(records, lambda found: name in found, within=40)

        await cluster.api.create(pods, workload.pod("gpu", resourceClaimTemplateName="gpu"))
        await run("gpu")
        for earlier, later in pairwise(names):
            await cluster.api.create(pods, workload.pod(later, resourceClaimTemplateName=names[later]))
            await cluster.api.delete(f"{pods}/{earlier}", grace=0)
            await run(later)
            checker.check()
            found = await records()
            stopped, running = found[earlier].stopped, found[later].running
            assert stopped is not None, f"{later} ran beside {earlier}"
            assert running is not None
            assert running > stopped, f"{later} ran beside {earlier}"


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["gpu", "1g10gb"])
async def test_a_claim_gets_no_other_devices_where_its_former_pod_still_runs(
    binaries: Binaries, spec: str
) -> None:
    """Its next pod would start at once, and with the old devices: kubelet prepares a claim once for all of its pods."""
    async with slow_node(binaries, cards=2, stop_seconds=4.0) as (cluster, installation, checker):
        namespace = await cluster.make_namespace("again", {"apportion.dev/managed": "true"})
        claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
        pods = f"/api/v1/namespaces/{namespace}/pods"
        kubelet = installation.kubelets["n1"]
        await cluster.api.create(claims, {"metadata": {"name": "one"}, "spec": workload.SPECS[spec]})

        async def running() -> list[PodRecord]:
            return [
                each for each in kubelet.records.values() if each.name == "same" and each.running is not None
            ]

        await cluster.api.create(pods, workload.pod("same", resourceClaimName="one"))
        await eventually(running, lambda found: len(found) == 1, within=40)
        await cluster.api.delete(f"{pods}/same", grace=0)
        await cluster.api.create(pods, workload.pod("same", resourceClaimName="one"))
        earlier, later = await eventually(running, lambda found: len(found) == 2, within=60)
        checker.check()
        claim = await cluster.api.get(f"{claims}/one")
        assert later.devices == {claim["metadata"]["uid"]: {use.device for use in uses(claim)}}
        assert earlier.uid != later.uid
