"""A load on an installation: objects created, processes killed, and what is not as it must be."""

import asyncio
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from testbed.api import Json
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.installation import Installation
from testbed.violations import claims_of, uses
from tests.storm import workload

ABSENCE_SECONDS = 60.0
_CHANGES = ("create", "delete")
_PROGRAMS = ("operator-0", "kube-controller-manager", "kube-scheduler")


@dataclass
class Load:
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

    # Disturbances

    def kill_at(self, *allocations: int) -> None:
        """SIGKILL the operator in the middle of its work: when the server has taken that many allocations."""
        operator, left = self.installation.operators[0], list(allocations)
        starts = 0

        def kill_operator(count: int) -> None:
            nonlocal starts
            # The watch still delivers what the last victim wrote: only a new process can be killed.
            if left and count >= left[0] and operator.pid is not None and operator.starts > starts:
                starts = operator.starts
                left.pop(0)
                operator.kill()
                self.kills += 1

        self.checker.on_allocation = kill_operator

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
                    if claim["metadata"]["name"] in claims_of(pod) and phase(pod) == "Pending"
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
                    continue  # another task has deleted it meanwhile
                taken.append(name)
                self.killed.append(name)
                path = f"/api/v1/namespaces/{self.namespace}/pods"
                await self.cluster.api.delete(f"{path}/{name}", grace=0)
                if name.startswith("s-"):
                    await self.cluster.api.create(path, self._first(name))
            await asyncio.sleep(0.2)

    async def _allocated(self, count: int) -> None:
        while self.checker.allocations < count:  # noqa: ASYNC110 - several wait, each for a number of its own
            await asyncio.sleep(0.05)

    # Expectations

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
            f"pod {name}: {about(pods.get(name))}"
            for name in sorted(self.expected())
            if phase(pods.get(name)) != "Running"
        ]
        claims = self.claims()
        return found + [
            f"claim {name} has no devices"
            for name in (raw["metadata"]["name"] for raw in workload.standalone_claims())
            if not list(uses(claims.get(name, {"metadata": {"namespace": "", "name": name, "uid": ""}})))
        ]

    async def not_released(self) -> list[str]:
        """Return what is left although all pods are deleted: only Immediate claims may keep devices."""
        found = [f"pod {name}: {about(pod)}" for name, pod in self.pods().items()]
        keep = set(immediate())
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
        """Return what Events and logs say about pods that should run and do not, and about their claims."""
        pods = self.pods()
        late = {name for name in self.expected() if phase(pods.get(name)) != "Running"}
        late |= {claim for name in late for claim in claims_of(pods.get(name) or self._first(name))}
        events, _ = await self.cluster.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        found = [
            f"{each['lastTimestamp'] or each['eventTime']} {each['involvedObject']['name']}: {each.get('reason')} {each.get('message')}"
            for each in events
            if each["involvedObject"].get("name") in late
        ]
        named = re.compile("|".join(rf"/{re.escape(name)}\b" for name in late) or "$^")
        logs = (*_PROGRAMS, *(f"agent-{name}" for name in self.installation.nodes))
        found += [
            f"{name}: {line}"
            for name in logs
            for line in self.cluster.logs(name).splitlines()
            if named.search(line)
        ]
        asked = [each for each in self.cluster.audited() if each.name in late and each.verb in _CHANGES]
        found += [f"{each.user}: {each.verb} {each.resource} {each.name}, {each.code}" for each in asked]
        return "\n".join(found)

    def _first(self, name: str) -> Json:
        """Return a pod as it was made first."""
        every = (*workload.template_pods(), *workload.standalone_pods())
        return next(raw for raw in every if raw["metadata"]["name"] == name)

    def said(self, event: str) -> int:
        """Count a line of the operator's log."""
        return len(re.findall(rf"\b{re.escape(event)}\b", self.cluster.logs("operator-0")))


def figures(load: Load, all_run: float, all_free: float) -> str:
    """Say what it was like."""
    starts = load.installation.operators[0].starts
    return (
        f"\nstorm: {len(load.expected())} pods ran {all_run:.1f} s after the first was made, all was free"
        f" {all_free:.1f} s after they were deleted;\n"
        f"  {load.checker.allocations} allocations ({load.checker.allocations / all_run:.1f} a second, outages included),"
        f" {load.said('claim.taken_back')} take-backs, {load.said('claim.given_back')} give-backs,"
        f" {load.said('claim.overtaken')} overtaken;\n"
        f"  {load.kills} kills of the operator ({starts} starts), {len(load.killed)} pods deleted by force,"
        f" {len(load.waited)} pods waited for the absent agent"
    )


def complaints(load: Load) -> list[str]:
    """Return the lines of our programs' logs that speak of a defect in them."""
    names = ["operator-0", *(f"agent-{name}" for name in load.installation.nodes)]
    # A write that a busy API server does not answer in time is made again: no defect of ours.
    unanswered = "504 Timeout|TimeoutError"
    bad = re.compile(rf"Traceback|task_failed|is forbidden|write_failed(?!.*(?:{unanswered}))")
    return [
        f"{name}: {line}"
        for name in names
        for line in load.cluster.logs(name).splitlines()
        if bad.search(line)
    ]


def immediate() -> list[str]:
    return [raw["metadata"]["name"] for raw in workload.standalone_claims() if raw["metadata"]["annotations"]]


def phase(pod: Json | None) -> str:
    return str((pod or {}).get("status", {}).get("phase", "absent"))


def about(pod: Json | None) -> str:
    if pod is None:
        return "absent"
    spec = pod["spec"]
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    return f"{phase(pod)} on {spec.get('nodeName')}, gates {gates}, claims {claims_of(pod)}"
