"""The release before this one, this one, and back: pods run on, partitions are cut while operator and agents are exchanged."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import psutil
import pytest

from testbed.binaries import Binaries
from testbed.checker import Checker, settled
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import REPOSITORY, Installation, SimulatedNode, install
from testbed.soak import specs, workload
from testbed.violations import DeviceKey, uses, watched_devices
from tests.e2e.tenant import LEASE, OWN, Tenant
from tests.ha.earlierrelease import earlier_release
from tests.soaktenant import soak_tenant

CUT_SECONDS = 1.5
"""How long a card takes to cut a partition: programs are exchanged meanwhile."""
KINDS = ("gpu", "1g10gb", "2g20gb", "1g10gb", "npu", "quarter", "share")
LAYOUT = {
    "apiVersion": "apportion.dev/v1alpha1",
    "kind": "PartitionLayout",
    "metadata": {"name": "quarters"},
    "spec": {
        "devices": [
            {
                "cel": {
                    "expression": f'device.driver == "{specs.NPU}" && device.attributes["{specs.NPU}"].cardId == 3'
                }
            }
        ],
        "partitions": [{"profile": "vir05_1c_8g", "count": 2}],
    },
}
SHARED = 2
"""GPUs of the node that is shared."""
QUARTERS = 2
"""Partitions that the layout has cut ahead."""


def nodes() -> list[SimulatedNode]:
    """Return the nodes of the soak, with slow cards."""
    slow = {"faults": {"createDelay": CUT_SECONDS, "destroyDelay": 0.2}}
    return [replace(node, simulation={**node.simulation, **slow}) for node in workload.nodes()]


@dataclass
class Releases:
    """An installation whose programs are exchanged, and the pods that run meanwhile."""

    installation: Installation
    checker: Checker
    tenant: Tenant
    made: int = 0
    started: int = 2

    async def make(self) -> list[str]:
        """Make a pod of each kind, and two that share a claim; returns their names."""
        self.made += 1
        claim = {"metadata": {"name": f"both-{self.made}"}, "spec": specs.SPECS["1g10gb"]}
        await self.tenant.make({"kind": "ResourceClaim", **claim})
        pods = [
            *(
                workload.pod(f"p{self.made}-{index}", resourceClaimTemplateName=kind)
                for index, kind in enumerate(KINDS)
            ),
            *(
                workload.pod(f"both-{self.made}-{user}", resourceClaimName=f"both-{self.made}")
                for user in range(2)
            ),
        ]
        for raw in pods:
            await self.tenant.make({"kind": "Pod", **raw})
        return [raw["metadata"]["name"] for raw in pods]

    async def running(self, names: Iterable[str]) -> None:
        """Wait until pods run."""
        wanted = list(names)

        async def waiting() -> list[str]:
            phases = {
                raw["metadata"]["name"]: raw.get("status", {}).get("phase")
                for raw in self.checker.pods.values()
            }
            return [f"{name}: {phases.get(name)}" for name in wanted if phases.get(name) != "Running"]

        await settled(self.checker, waiting, within=90)

    async def shared(self) -> None:
        """Wait until the GPUs of the shared node are published as shared: one that somebody has whole by then is not."""

        async def published() -> int:
            slices, _ = await self.installation.cluster.api.items("/apis/resource.k8s.io/v1/resourceslices")
            devices = [device for raw in slices for device in raw["spec"].get("devices", ())]
            return sum(device.get("allowMultipleAllocations", False) for device in devices)

        await eventually(published, lambda count: count == SHARED, within=60)

    async def in_flight(self) -> None:
        """Wait until a partition is wanted that is not cut."""

        async def wanted() -> bool:
            return any(
                raw.get("status", {}).get("phase") != "Ready" for raw in self.checker.partitions.values()
            )

        await eventually(wanted, within=30)

    def held(self) -> dict[str, set[DeviceKey]]:
        """Return the devices of every claim that a pod uses which nobody deletes, by the claim's UID."""
        pods = {uid for uid, raw in self.checker.pods.items() if "deletionTimestamp" not in raw["metadata"]}
        return {
            uid: {use.device for use in uses(raw)} | set(watched_devices(raw))
            for uid, raw in self.checker.claims.items()
            if pods & {user["uid"] for user in raw.get("status", {}).get("reservedFor") or ()}
        }

    def cut(self) -> dict[str, str]:
        """Return the identity of the partition in the hardware of every claim that has one, by the claim's UID."""
        return {
            raw["spec"]["holder"]["uid"]: raw["status"]["uuid"]
            for raw in self.checker.partitions.values()
            if "holder" in raw["spec"] and raw.get("status", {}).get("uuid")
        }

    def left(self) -> list[str]:
        """Return what claims have left: claims, and partitions that no layout wants."""
        rows = [row["uuid"] for node in self.installation.nodes for row in self.installation.hardware(node)]
        names = [raw["metadata"]["name"] for raw in self.checker.claims.values()]
        return names if len(rows) == QUARTERS else names + rows

    async def exchange(self, code: Path, *steps: Callable[[], Awaitable[None]]) -> None:
        """Apply the CRDs of a release, then all its manifests, then exchange the programs step by step."""
        cluster = self.installation.cluster
        await cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(code / "crds"))
        await install(cluster, code / "manifests")
        self.installation.code = code
        for step in steps:
            await step()

    async def operators(self) -> None:
        """Exchange the operators as a Deployment does: the new ones are ready before the old ones end."""
        installation = self.installation
        old, installation.operators[:], installation.operator_ports[:] = [*installation.operators], (), ()
        for _ in old:
            await installation.start_operator(self.started)
            self.started += 1
        for port in installation.operator_ports:
            address = f"http://127.0.0.1:{port}/readyz"
            await eventually(lambda address=address: _ready(address), within=60)
        await asyncio.gather(*(operator.stop() for operator in old))

    async def agents(self) -> None:
        """Exchange the agents as a DaemonSet does: the new one of a node starts beside the old one."""
        old = dict(self.installation.agents)
        for name in old:
            await self.installation.start_agent(name, instance=f"{name}-{self.made}")
        await asyncio.sleep(2 * CUT_SECONDS)
        await asyncio.gather(*(agent.stop() for agent in old.values()))


async def _ready(address: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(address) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def _code_of(installation: Installation) -> set[str]:
    """Return which release's code the programs run that are there now."""
    programs = (*installation.operators, *installation.agents.values())
    return {
        psutil.Process(program.pid).environ()["PYTHONPATH"] for program in programs if program.pid is not None
    }


@pytest.mark.slow
async def test_claims_and_partitions_stay_through_an_upgrade_and_a_downgrade(
    binaries: Binaries, tmp_path: Path
) -> None:
    """Nothing is lost, cut twice or left over, and each release reads the journals of the other one."""
    earlier = earlier_release(tmp_path)
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(
            cluster,
            nodes(),
            operators=2,
            operator_options=LEASE,
            manifests=earlier / "manifests",
            code=earlier,
        ) as installation,
        Checker(installation) as checker,
    ):
        now = Releases(installation, checker, await soak_tenant(installation, "release"))
        await cluster.api.create(f"{OWN}/allocationpolicies", workload.POLICY)
        await cluster.api.create(f"{OWN}/partitionlayouts", LAYOUT)
        await now.shared()
        first = await now.make()
        await now.running(first)
        assert _code_of(installation) == {str(earlier / "operator")}

        async def exchanged(code: Path, *steps: Callable[[], Awaitable[None]]) -> list[str]:
            """Exchange the programs while partitions are cut; what had devices has them still."""
            made = await now.make()
            await now.in_flight()
            held, cut = now.held(), now.cut()
            await now.exchange(code, *steps)
            await now.running(made)
            await settled(checker, checker.at_rest, within=30)
            assert now.held() == {**now.held(), **held}
            assert now.cut() == {**now.cut(), **{uid: found for uid, found in cut.items() if uid in held}}
            assert _code_of(installation) == {str(code / "operator")}
            return made

        second = await exchanged(REPOSITORY, now.operators, now.agents)
        await now.running(first)
        for name in first:
            await cluster.api.delete(f"{now.tenant.path('Pod')}/{name}")
        await exchanged(earlier, now.agents, now.operators)
        await now.running(second)

        for kind in ("Pod", "ResourceClaim"):
            await cluster.api.delete_all(now.tenant.path(kind))

        async def left() -> list[str]:
            return now.left()

        await settled(checker, left, within=60)
        await settled(checker, checker.at_rest, within=30)
        assert not list(cluster.folder.rglob("journal.broken*"))
