"""A device is free when its container has stopped, not when its pod is gone."""

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import NamedTuple

import pytest

from testbed.binaries import Binaries
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import Installation, SimulatedNode
from testbed.kubelet.podrecord import PodRecord
from testbed.soak import specs, workload
from testbed.violations import uses
from tests.e2e.tenant import Tenant
from tests.soaktenant import soak_tenant

pytestmark = pytest.mark.slow
ONE_CARD, TWO_CARDS = "one-card", "two-cards"
STOP_SECONDS = {ONE_CARD: 2.5, TWO_CARDS: 4.0}
"""How long containers of each node take to stop."""


class Slow(NamedTuple):
    """An installation with nodes whose containers take time to stop, and the namespace of the tests."""

    installation: Installation
    checker: Checker
    tenant: Tenant

    async def make_pod(self, name: str, node: str, **claim: str) -> None:
        raw = workload.pod(name, **claim)
        raw["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        await self.tenant.make({"kind": "Pod", **raw})

    def ran(self, node: str) -> list[PodRecord]:
        """Return the pods that have run on a node."""
        records = self.installation.kubelets[node].records.values()
        return [record for record in records if record.running is not None]


@pytest.fixture(scope="module")
async def slow(binaries: Binaries) -> AsyncIterator[Slow]:
    """Run everything for a node with one card and one with two."""
    nodes = [
        SimulatedNode(name, {"cards": [{"model": "H100-80GB", "count": count}]})
        for name, count in ((ONE_CARD, 1), (TWO_CARDS, 2))
    ]
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(cluster, nodes) as installation,
        Checker(installation) as checker,
    ):
        for name, seconds in STOP_SECONDS.items():
            installation.kubelets[name].stop_seconds = seconds
        yield Slow(installation, checker, await soak_tenant(installation, "held"))


async def test_the_next_pod_waits_for_the_container_of_a_pod_deleted_by_force(slow: Slow) -> None:
    """On the only card: whole, cut, whole, and whole again. The allocation is free at once, the card is not."""
    names = {"gpu": "gpu", "mig": "1g10gb", "whole": "gpu", "again": "gpu"}

    async def records() -> dict[str, PodRecord]:
        return {each.name: each for each in slow.ran(ONE_CARD)}

    async def run(name: str) -> None:
        await slow.make_pod(name, ONE_CARD, resourceClaimTemplateName=names[name])

    await run("gpu")
    await eventually(records, lambda found: "gpu" in found, within=40)
    for earlier, later in pairwise(names):
        await run(later)
        await slow.tenant.end_by_force(earlier)
        await eventually(records, lambda found, later=later: later in found, within=40)
        slow.checker.check()
        found = await records()
        stopped, running = found[earlier].stopped, found[later].running
        assert stopped is not None, f"{later} ran beside {earlier}"
        assert running is not None
        assert running > stopped, f"{later} ran beside {earlier}"


@pytest.mark.parametrize("spec", ["gpu", "1g10gb"])
async def test_a_claim_gets_no_other_devices_where_its_former_pod_still_runs(slow: Slow, spec: str) -> None:
    """Its next pod would start at once, and with the old devices: kubelet prepares a claim once for all of its pods."""
    name = f"one-{spec}"

    async def running() -> list[PodRecord]:
        return [each for each in slow.ran(TWO_CARDS) if each.name == name]

    await slow.tenant.make({"kind": "ResourceClaim", "metadata": {"name": name}, "spec": specs.SPECS[spec]})
    await slow.make_pod(name, TWO_CARDS, resourceClaimName=name)
    await eventually(running, lambda found: len(found) == 1, within=40)
    await slow.tenant.end_by_force(name)
    await slow.make_pod(name, TWO_CARDS, resourceClaimName=name)
    earlier, later = await eventually(running, lambda found: len(found) == 2, within=60)
    slow.checker.check()
    found = await slow.tenant.claim(name)
    assert later.devices == {found["metadata"]["uid"]: {use.device for use in uses(found)}}
    assert earlier.uid != later.uid
