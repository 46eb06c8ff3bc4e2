"""The storm: 200 pods and 20 standalone claims on 20 nodes, while operators, an agent and pods are taken away."""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest

from testbed.api import Json
from testbed.binaries import Binaries
from testbed.checker import Checker, settled
from testbed.controlplane import ControlPlane
from testbed.installation import Installation
from testbed.violations import claims_of, uses
from tests.storm import workload

POLICIES: Final = "/apis/apportion.dev/v1alpha1/allocationpolicies"
ABSENCE_SECONDS = 60.0
_SEED = 20260701


@dataclass
class Storm:
    """One run: what was started, what was done to it, and how long things took."""

    cluster: ControlPlane
    installation: Installation
    checker: Checker
    namespace: str
    kills: int = 0
    killed: list[str] = field(default_factory=list)
    """Names of pods that were deleted by force."""
    waited: set[str] = field(default_factory=set)
    """Names of pods that waited on the node without an agent."""

    async def create(self, kind: str, objects: Iterable[Json]) -> None:
        """Make objects, some at a time."""
        group = "/api/v1" if kind == "pods" else "/apis/resource.k8s.io/v1"
        slots = asyncio.Semaphore(16)

        async def one(raw: Json) -> None:
            async with slots:
                await self.cluster.api.create(f"{group}/namespaces/{self.namespace}/{kind}", raw)

        await asyncio.gather(*(one(raw) for raw in objects))

    def claims(self) -> dict[str, Json]:
        """Return the claims that are there, by name."""
        return self._ours(self.checker.claims)

    def pods(self) -> dict[str, Json]:
        """Return the pods that are there, by name."""
        return self._ours(self.checker.pods)

    def _ours(self, objects: Mapping[str, Json]) -> dict[str, Json]:
        found = [raw["metadata"] for raw in objects.values()]
        names = {each["uid"]: each["name"] for each in found if each["namespace"] == self.namespace}
        return {name: objects[uid] for uid, name in names.items()}

    # What is done to it.

    def kill_at(self, *allocations: int) -> None:
        """SIGKILL the operator in the middle of its work: when the server has taken that many allocations."""
        operator, left = self.installation.operators[0], list(allocations)
        starts = 0

        def strike(count: int) -> None:
            nonlocal starts
            # The watch still delivers what the last victim wrote: only a new process can be killed.
            if left and count >= left[0] and operator.pid is not None and operator.starts > starts:
                starts = operator.starts
                left.pop(0)
                operator.kill()
                self.kills += 1

        self.checker.on_allocation = strike

    async def without_an_agent(self, at: int) -> None:
        """Stop the agent of the node with the most partitions after `at` allocations, for a minute."""
        await self._allocated(at)
        counts: dict[str, int] = {}
        for claim in self.checker.claims.values():
            for use in uses(claim):
                if use.device in self.checker.devices.parts:
                    counts[use.device[1]] = counts.get(use.device[1], 0) + 1
        node = max(counts, key=lambda name: counts[name])
        agent = self.installation.agents[node]
        await agent.stop()
        await asyncio.sleep(ABSENCE_SECONDS)
        for claim in self.checker.claims.values():
            if any(use.device[1] == node for use in uses(claim)):
                self.waited |= {
                    name
                    for name, pod in self.pods().items()
                    if claim["metadata"]["name"] in claims_of(pod) and _phase(pod) == "Pending"
                }
        agent.start()

    async def delete_by_force(self, at: int, prefix: str, count: int, choose: random.Random) -> None:
        """Delete bound pods with grace period 0, running or not; those of standalone claims are made again."""
        await self._allocated(at)
        taken: list[str] = []
        while len(taken) < count:
            bound = [
                name
                for name, pod in self.pods().items()
                if name.startswith(prefix) and pod["spec"].get("nodeName") and name not in self.killed
            ]
            for name in choose.sample(sorted(bound), min(len(bound), count - len(taken))):
                if name in self.killed:
                    continue  # another storm of deletions was here since
                taken.append(name)
                self.killed.append(name)
                path = f"/api/v1/namespaces/{self.namespace}/pods"
                await self.cluster.api.delete(f"{path}/{name}", grace=0)
                if name.startswith("s-"):
                    again = next(raw for raw in workload.standalone_pods() if raw["metadata"]["name"] == name)
                    await self.cluster.api.create(path, again)
            await asyncio.sleep(0.2)

    async def _allocated(self, count: int) -> None:
        while self.checker.allocations < count:  # noqa: ASYNC110 - several wait, each for a number of its own
            await asyncio.sleep(0.05)

    # What should be.

    def expected(self) -> set[str]:
        """Return the names of the pods that should run in the end."""
        every = [*workload.template_pods(), *workload.standalone_pods()]
        return {raw["metadata"]["name"] for raw in every} - {
            name for name in self.killed if name.startswith("t-")
        }

    async def not_running(self) -> list[str]:
        """Return what does not run yet, and standalone claims without devices."""
        pods = self.pods()
        found = [
            f"pod {name}: {_about(pods.get(name))}"
            for name in sorted(self.expected())
            if _phase(pods.get(name)) != "Running"
        ]
        claims = self.claims()
        return found + [
            f"claim {name} has no devices"
            for name in (raw["metadata"]["name"] for raw in workload.standalone_claims())
            if not list(uses(claims.get(name, {"metadata": {"namespace": "", "name": name, "uid": ""}})))
        ]

    async def not_released(self) -> list[str]:
        """Return what is left although all pods are deleted: only Immediate claims may keep devices."""
        found = [f"pod {name}: {_about(pod)}" for name, pod in self.pods().items()]
        keep = set(_immediate())
        for name, claim in self.claims().items():
            if not name.startswith("s-"):
                found.append(f"template claim {name}")
            elif (name in keep) != bool(list(uses(claim))):
                found.append(
                    f"claim {name} ({'Immediate' if name in keep else 'plain'}) is {claim.get('status')}"
                )
        held = {
            raw["spec"]["holder"]["name"]
            for raw in self.checker.partitions.values()
            if "holder" in raw["spec"]
        }
        return found + [f"a partition is held by {name}" for name in sorted(held - keep)]

    async def not_gone(self) -> list[str]:
        """Return what is left although nothing is asked for any more."""
        found = [f"claim {name}" for name in self.claims()]
        found += [f"partition {raw['metadata']['name']}" for raw in self.checker.partitions.values()]
        return found + [
            f"hardware of {node}: {row['card']} {row['profile']}"
            for node in self.installation.nodes
            for row in self.installation.hardware(node)
        ]

    async def warnings(self) -> str:
        """Return what the Events about pods that do not run say."""
        waiting = {name for name, pod in self.pods().items() if _phase(pod) != "Running"}
        events, _ = await self.cluster.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        return "\n".join(
            f"{each['involvedObject']['name']}: {each.get('reason')} {each.get('message')}"
            for each in events
            if each["involvedObject"].get("name") in waiting
        )

    def said(self, event: str) -> int:
        """Count a line of the operator's log."""
        return len(re.findall(rf"\b{re.escape(event)}\b", self.cluster.logs("operator-0")))


@pytest.fixture
async def storm(binaries: Binaries) -> AsyncIterator[Storm]:
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
        yield Storm(cluster, installation, checker, namespace)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_no_device_is_used_twice_whoever_is_killed(
    storm: Storm, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every pod that stays gets its devices and its node, and in the end everything is free again."""
    checker = storm.checker
    choose = random.Random(_SEED)  # noqa: S311 - no secret, but the same choice every time
    storm.kill_at(20, 60, 100, 140, 175)
    await storm.create("resourceclaimtemplates", workload.templates())

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(storm.create("resourceclaims", workload.standalone_claims()))
        group.create_task(storm.create("pods", [*workload.template_pods(), *workload.standalone_pods()]))
        group.create_task(storm.without_an_agent(at=10))
        group.create_task(storm.delete_by_force(70, "t-", 6, choose))
        group.create_task(storm.delete_by_force(110, "s-", 8, choose))
        group.create_task(storm.delete_by_force(150, "t-", 6, choose))
    try:
        await settled(checker, storm.not_running, within=120)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{await storm.warnings()}") from None
    all_run = time.monotonic() - began
    await settled(checker, checker.at_rest, within=30)

    assert storm.kills == 5
    assert len(storm.killed) == 20
    assert storm.waited, "no pod waited for the agent that was away"

    began = time.monotonic()
    await storm.cluster.api.delete_all(f"/api/v1/namespaces/{storm.namespace}/pods")
    await settled(checker, storm.not_released, within=90)
    await settled(checker, checker.at_rest, within=30)
    await storm.cluster.api.delete_all(
        f"/apis/resource.k8s.io/v1/namespaces/{storm.namespace}/resourceclaims"
    )
    await settled(checker, storm.not_gone, within=90)
    all_free = time.monotonic() - began

    with capsys.disabled():
        print(_figures(storm, all_run, all_free))  # noqa: T201 - for people who watch
    assert _complaints(storm) == []


def _figures(storm: Storm, all_run: float, all_free: float) -> str:
    """Say what it was like."""
    starts = storm.installation.operators[0].starts
    return (
        f"\nstorm: {len(storm.expected())} pods ran {all_run:.1f} s after the first was made, all was free"
        f" {all_free:.1f} s after they were deleted;\n"
        f"  {storm.checker.allocations} allocations ({storm.checker.allocations / all_run:.1f} a second, outages included),"
        f" {storm.said('claim.taken_back')} take-backs, {storm.said('claim.given_back')} give-backs,"
        f" {storm.said('claim.overtaken')} overtaken;\n"
        f"  {storm.kills} kills of the operator ({starts} starts), {len(storm.killed)} pods deleted by force,"
        f" {len(storm.waited)} pods waited for the absent agent"
    )


def _complaints(storm: Storm) -> list[str]:
    """Return the lines of our programs' logs that speak of a defect in them."""
    names = ["operator-0", *(f"agent-{name}" for name in storm.installation.nodes)]
    bad = re.compile(r"Traceback|task_failed|write_failed|is forbidden")
    return [
        f"{name}: {line}"
        for name in names
        for line in storm.cluster.logs(name).splitlines()
        if bad.search(line)
    ]


def _immediate() -> list[str]:
    return [raw["metadata"]["name"] for raw in workload.standalone_claims() if raw["metadata"]["annotations"]]


def _phase(pod: Json | None) -> str:
    return str((pod or {}).get("status", {}).get("phase", "absent"))


def _about(pod: Json | None) -> str:
    if pod is None:
        return "absent"
    spec = pod["spec"]
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    return f"{_phase(pod)} on {spec.get('nodeName')}, gates {gates}, claims {claims_of(pod)}"
