"""`python -m bench.gangs`: groups that need more than half of the devices arrive at random, and none waits for another for ever.

In: a number of groups, a seed. Out: one JSON line with how many were served and how long they waited; status 1 if one that fits alone was
not served, or one was ever let go before enough of its pods had devices. etcd, kube-apiserver, controller-manager and the operator are real; nobody binds
the pods: a group that was let go has its turn for a moment, and is deleted.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated

import orjson
import typer
from rich.console import Console

from bench.scenariorun import percentile
from testbed.api import Json
from testbed.binaries import Binaries, provide
from testbed.components import APISERVER, CONTROLLER_MANAGER, ETCD
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import Installation, SimulatedNode
from testbed.versions import DEFAULT

NODES, DEVICES = 2, 4
_CLASS = "gangs.example.com"
_RESOURCE = "/apis/resource.k8s.io/v1"
_MANAGED = {"apportion.dev/managed": "true"}
_AT_ONCE = 12
"""Groups that are there at the same time."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Gang:
    """One group: pods with so many devices each."""

    name: str
    counts: tuple[int, ...]

    @property
    def fits(self) -> bool:
        """Whether it would be served if it were alone."""
        return self.counts in _PLACEABLE


_PLACEABLE = frozenset({(3, 3), (4, 3), (4, 4), (3, 2), (2, 2), (1, 1), (2, 2, 2)})
"""Devices of each pod; most need more than half of the eight."""
_LARGER = frozenset({(4, 4, 4), (3, 3, 3)})
"""Groups that need a third node."""


@dataclass(slots=True)
class Report:
    """What became of all groups."""

    groups: int
    fitting: int = 0
    served: int = 0
    half_placed: list[str] = field(default_factory=list)
    """Groups of which a pod was let go while another one had no devices."""
    waited: list[float] = field(default_factory=list)
    """Seconds from the last pod of a group until all were let go."""

    @property
    def ended_well(self) -> bool:
        """Whether all that fit alone were served, and none in part."""
        return self.served == self.fitting and not self.half_placed


def gangs_of(number: int, seed: int) -> list[Gang]:
    """Return so many random groups; one of twenty can never be served."""
    draw = random.Random(seed)
    placeable, larger = sorted(_PLACEABLE), sorted(_LARGER)
    return [
        Gang(f"g{index}", draw.choice(larger if index % 20 == 10 else placeable)) for index in range(number)
    ]


class Run:
    """Groups on one control plane."""

    def __init__(self, cluster: ControlPlane, namespace: str, report: Report, seed: int) -> None:
        self._api = cluster.api
        self._namespace = namespace
        self._report = report
        self._draw = random.Random(seed)
        self._pods: dict[str, Json] = {}
        self._claims: dict[str, Json] = {}
        self._looked = asyncio.Condition()

    async def all(self, gangs: Sequence[Gang], within: float) -> None:
        """Let all groups come and go; groups that cannot be served stay until the end."""
        looking = asyncio.ensure_future(self._look())
        slots = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.timeout(within), asyncio.TaskGroup() as tasks:
                for gang in gangs:
                    await slots.acquire()
                    await asyncio.sleep(self._draw.random() * 0.02)
                    tasks.create_task(self._come_and_go(gang, slots))
        except TimeoutError:
            pass  # the report says how many were served
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _come_and_go(self, gang: Gang, slots: asyncio.Semaphore) -> None:
        names = [f"{gang.name}-{number}" for number in range(len(gang.counts))]
        pairs = list(zip(names, gang.counts, strict=True))
        self._draw.shuffle(pairs)
        for name, count in pairs:
            await self._api.create(self._claim_path(), claim(name, count))
            await self._api.create(self._pod_path(), pod(name, gang))
        if not gang.fits:
            slots.release()
            return
        whole = time.monotonic()
        async with self._looked:
            await self._looked.wait_for(lambda: all(self._let_go(name) for name in names))
        self._report.waited.append(time.monotonic() - whole)
        self._report.served += 1
        await asyncio.sleep(self._draw.random() * 0.1)
        for name in names:
            await self._api.delete(self._pod_path(name), grace=0)
            await self._api.delete(self._claim_path(name))
        slots.release()

    async def _look(self) -> None:
        while True:
            # Pods first: one that was let go before has its devices in the claims that are read after.
            pods, _ = await self._api.items(self._pod_path())
            claims, _ = await self._api.items(self._claim_path())
            self._pods = {each["metadata"]["name"]: each for each in pods}
            self._claims = {each["metadata"]["name"]: each for each in claims}
            self._check()
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(_LOOK_SECONDS)

    def _check(self) -> None:
        """Note the groups that were let go in part; one that is being deleted has had its turn."""
        for name in self._pods:
            gang = name.split("-")[0]
            leaving = [
                each for each in self._pods if each.startswith(f"{gang}-") and each not in self._claims
            ]
            if leaving or not self._let_go(name):
                continue
            own = [each for key, each in self._claims.items() if key.startswith(f"{gang}-")]
            if any("deletionTimestamp" in each["metadata"] for each in own):
                continue
            placed = all("allocation" in each.get("status", {}) for each in own)
            if not placed and gang not in self._report.half_placed:
                self._report.half_placed.append(gang)

    def _let_go(self, name: str) -> bool:
        found = self._pods.get(name)
        return found is not None and not found["spec"].get("schedulingGates")

    def _pod_path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods/{name}".rstrip("/")

    def _claim_path(self, name: str = "") -> str:
        return f"{_RESOURCE}/namespaces/{self._namespace}/resourceclaims/{name}".rstrip("/")


def claim(name: str, count: int) -> Json:
    """Return a claim for so many devices."""
    exactly = {"deviceClassName": _CLASS, "count": count}
    spec = {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, gang: Gang) -> Json:
    """Return a pod of a group, with the claim of its name."""
    labels = {"apportion.dev/pod-group": gang.name}
    annotations = {"apportion.dev/pod-group-min-count": str(len(gang.counts))}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "resourceClaims": [{"name": "devices", "resourceClaimName": name}],
            "containers": [
                {"name": "main", "image": "pause", "resources": {"claims": [{"name": "devices"}]}}
            ],
        },
    }


@asynccontextmanager
async def cluster_of_devices(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Run a control plane with two nodes of four devices, and an operator."""
    nodes = [SimulatedNode(f"n{number}", {}) for number in range(NODES)]
    async with (
        ControlPlane(binaries=binaries, components=(ETCD, APISERVER, CONTROLLER_MANAGER)) as cluster,
        Installation(cluster, nodes, agents=False),
    ):
        expression = f'device.driver == "{_CLASS}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        body = {"metadata": {"name": _CLASS, "labels": _MANAGED}, "spec": spec}
        await cluster.api.create(f"{_RESOURCE}/deviceclasses", body)
        for node in nodes:
            pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"device-{number}"} for number in range(DEVICES)]
            published = {"driver": _CLASS, "nodeName": node.name, "pool": pool, "devices": devices}
            await cluster.api.create(
                f"{_RESOURCE}/resourceslices",
                {"metadata": {"name": f"{node.name}-devices"}, "spec": published},
            )
        yield cluster


async def gated(cluster: ControlPlane, namespace: str) -> None:
    """Wait until admission adds the gate to new pods: the API server takes a moment to follow a new policy."""
    body = pod("probe", Gang("probe", (1,)))

    async def made() -> Json:
        return await cluster.api.create(f"/api/v1/namespaces/{namespace}/pods", body, dryRun="All")

    await eventually(made, lambda found: found["spec"].get("schedulingGates"), within=60)


async def measure(groups: int, seed: int, within: float, binaries: Binaries) -> Report:
    """Let so many groups arrive; returns what became of them after so many seconds at most."""
    gangs = gangs_of(groups, seed)
    report = Report(groups, fitting=sum(each.fits for each in gangs))
    async with cluster_of_devices(binaries) as cluster:
        namespace = await cluster.make_namespace("gangs", _MANAGED)
        await gated(cluster, namespace)
        await Run(cluster, namespace, report, seed).all(gangs, within)
    return report


def main(
    groups: Annotated[int, typer.Option(min=1, help="Groups that arrive.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of sizes and times.")] = 1,
    within: Annotated[float, typer.Option(min=1, help="Seconds at most.")] = 900.0,
) -> None:
    """Let groups arrive at random, most of which need more than half of the devices."""

    async def run() -> Report:
        binaries = await provide(DEFAULT, console=Console(stderr=True))
        return await measure(groups, seed, within, binaries)

    report = asyncio.run(run())
    waited = sorted(report.waited)
    line = asdict(report) | {
        "waited": {
            "p50": percentile(waited, 0.5),
            "p99": percentile(waited, 0.99),
            "max": max(waited, default=0),
        }
    }
    sys.stdout.write(orjson.dumps(line).decode() + "\n")
    if not report.ended_well:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
