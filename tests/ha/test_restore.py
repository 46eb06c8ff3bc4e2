"""Etcd goes back to a backup while claims are allocated and partitions are cut: nobody of ours, and no kubelet, is restarted."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testbed.backup import RAISED, restore, take
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.checker import Checker, settled
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from testbed.installation import Installation, SimulatedNode
from testbed.kubelet.podrecord import PodRecord
from testbed.soak import specs, workload
from tests.e2e.tenant import OWN, Tenant
from tests.ha.replicapair import replica_pair

CUT_SECONDS = 1.5
STOP_SECONDS = 2.0
"""How long containers of pods that vanished go on."""
LATE_SECONDS = 60.0
"""For how long watches may show different histories: one old list is not believed."""
_LOOK_SECONDS = 0.02


def node(name: str) -> SimulatedNode:
    """Return a node with two H100 that are cut slowly."""
    faults = {"createDelay": CUT_SECONDS, "destroyDelay": 0.2}
    return SimulatedNode(name, {"cards": [{"model": "H100-80GB", "count": 2}], "faults": faults})


@dataclass
class Restored:
    """An installation and the pods of one namespace."""

    installation: Installation
    checker: Checker
    proxies: Sequence[FaultyProxy]
    tenant: Tenant
    destroyed: list[str] = field(default_factory=list)
    """Partitions that went while containers had them."""

    @property
    def cluster(self) -> ControlPlane:
        return self.installation.cluster

    async def make(self, name: str, kind: str) -> None:
        """Make a pod with a claim from a template."""
        await self.tenant.make({"kind": "Pod", **workload.pod(name, resourceClaimTemplateName=kind)})

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.cluster.api.delete(f"{self.tenant.path('Pod')}/{name}")

    def record(self, name: str) -> PodRecord | None:
        """Return what a pod's kubelet did last with it."""
        found = [
            record
            for kubelet in self.installation.kubelets.values()
            for record in kubelet.records.values()
            if record.name == name
        ]
        return found[-1] if found else None

    def has(self, name: str) -> set[str]:
        """Return the names of the devices with which a pod runs; empty: it does not run."""
        record = self.record(name)
        if record is None or record.running is None or record.stopped is not None:
            return set()
        return {device for devices in record.devices.values() for _, _, device in devices}

    async def run(self, *names: str) -> None:
        """Wait until containers run, whatever the API says."""

        async def waiting() -> list[str]:
            records = {name: self.record(name) for name in names if not self.has(name)}
            return [f"{name}: {record and record.problems[-1:]}" for name, record in records.items()]

        await settled(self.checker, waiting, within=90)

    async def end(self, *names: str) -> None:
        """Wait until containers have ended and their claims are released."""

        async def running() -> list[str]:
            records = {name: self.record(name) for name in names}
            return [name for name, record in records.items() if record is not None and record.ended is None]

        await settled(self.checker, running, within=60)

    def cut(self, profile: str) -> list[str]:
        """Return the UUIDs of the partitions of a profile in all hardware."""
        nodes = self.installation.nodes
        rows = [row for name in nodes for row in self.installation.hardware(name)]
        return [row["uuid"] for row in rows if row["profile"] == profile]

    async def watch(self, uuid: str, name: str) -> None:
        """Note when a partition goes that a pod's containers have."""
        while True:
            rows = [row for each in self.installation.nodes for row in self.installation.hardware(each)]
            if self.has(name) and uuid not in {row["uuid"] for row in rows}:
                self.destroyed.append(f"{uuid} of {name}")
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def in_flight(self) -> None:
        """Wait until a partition is wanted that is not cut."""

        async def wanted() -> bool:
            found = self.checker.partitions.values()
            return any(raw.get("status", {}).get("phase") not in {"Ready", "Idle"} for raw in found)

        await eventually(wanted)

    async def unanswered(self) -> None:
        """Wait until the write of an allocation has got no answer, and let it not be withdrawn."""

        async def lost() -> int:
            return sum(proxy.faults[Fault.DROP_REQUEST] for proxy in self.proxies)

        await eventually(lost)
        for proxy in self.proxies:
            proxy.rules = [Rule(Fault.DROP_REQUEST, "PATCH", "/resourceclaims/")]


@pytest.fixture
async def now(binaries: Binaries) -> AsyncIterator[Restored]:
    """Run two replicas and two nodes with two GPUs each."""
    nodes = [node("h100-a"), node("h100-b")]
    async with replica_pair(binaries, nodes, stays=LATE_SECONDS, stop_seconds=STOP_SECONDS) as made:
        await made.installation.cluster.api.create(f"{OWN}/allocationpolicies", workload.POLICY)
        yield Restored(*made)


def names(words: Iterable[str]) -> tuple[str, ...]:
    """Return the first words of lines."""
    return tuple(word.split()[0] for word in words)


BEFORE = ("stays-gpu gpu", "stays-cut 1g10gb", "ended-gpu gpu", "ended-cut 3g40gb", "other-gpu gpu")
AFTER = ("new-gpu gpu", "new-cut 2g20gb", "new-idle 1g20gb")


@pytest.mark.slow
@pytest.mark.parametrize("options", [RAISED, ()], ids=["as the page says", "versions go back"])
async def test_a_restored_backup_gives_nothing_twice_and_loses_nothing(
    now: Restored, etcdutl_program: Path, tmp_path: Path, options: Sequence[str]
) -> None:
    """What runs on runs on; what vanished ends and leaves nothing; what came back has its devices again, when they are free."""
    file = tmp_path / "etcd.db"
    for line in BEFORE:
        await now.make(*line.split())
        await now.run(line.split()[0])
    await now.make("waits", "gpu")
    claim = {"kind": "ResourceClaim", "metadata": {"name": "asked"}, "spec": specs.SPECS["1g10gb"]}
    await now.tenant.make(claim)
    await take(now.cluster, file)

    # What the backup does not know: two pods end, the one that waited and others begin.
    [given] = now.has("ended-gpu")
    await now.delete("ended-gpu", "ended-cut")
    await now.run("waits")
    assert now.has("waits") == {given}
    await now.delete("other-gpu")
    for line in AFTER:
        await now.make(*line.split())
    await now.run(*names(AFTER))
    [made] = now.cut("2g.20gb")
    [kept] = now.cut("1g.10gb")
    running = {name: now.record(name) for name in ("stays-gpu", "stays-cut")}
    await eventually(lambda: asyncio.to_thread(now.cut, "3g.40gb"), lambda found: not found)
    await now.delete("new-idle")
    await now.end("new-idle")
    await now.make("new-late", "1g10gb")
    await now.in_flight()
    for proxy in now.proxies:
        proxy.rules = [Rule(Fault.DROP_REQUEST, "PATCH", "/resourceclaims/.*/status")]
    await now.tenant.make({"kind": "Pod", **workload.pod("asks", resourceClaimName="asked")})
    await now.unanswered()

    async with beside(now.watch(made, "new-cut")), beside(now.watch(kept, "stays-cut")):
        await restore(now.cluster, file, etcdutl_program, options)
        for proxy in now.proxies:
            proxy.rules = []
        await now.end("new-gpu", "new-cut", "new-late")
        await now.run(*names(BEFORE))
        assert now.has("ended-gpu") == {given}
        assert not now.has("waits")
        await now.tenant.make({"kind": "Pod", **workload.pod("asks-again", resourceClaimName="asked")})
        await now.run("asks-again")
        await now.delete("other-gpu")
        await now.run("waits")
        await settled(now.checker, now.checker.at_rest, within=60)
        assert made not in now.cut("2g.20gb")
    assert now.destroyed == []
    for name, record in running.items():
        assert now.record(name) is record

    await now.tenant.empty()

    async def left() -> list[str]:
        rows = [str(row) for name in now.installation.nodes for row in now.installation.hardware(name)]
        return rows + [raw["metadata"]["name"] for raw in now.checker.partitions.values()]

    await settled(now.checker, left, within=60)
