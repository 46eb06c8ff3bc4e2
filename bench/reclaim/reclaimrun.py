"""One run: borrowers take all GPUs, then the owners' Deployments come, until each has what is guaranteed to it.

In: a plan. Out: figures. Raises TestbedError if a device was allocated twice, or a team has less than is guaranteed to it in the end.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apportion.api.contract import MANAGED
from apportion.cluster.kinds import CLAIM_TEMPLATES, CLAIMS, NAMESPACES, POLICIES, QUOTAS
from bench.doubled import refuse_doubled
from bench.endtoend.cluster import OPERATOR, Cluster, prepared
from bench.endtoend.workload import Who
from bench.reclaim.reclaimplan import ReclaimPlan
from bench.usage import settled, usages
from testbed.api import Api, Json
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.reflector import Reflector
from testbed.soak.soakrun import EVICTING_MANIFESTS

_WITHIN: Final = 900.0
"""Seconds for which the last GPU is waited for."""
_EVICTED: Final = "apportion_preempted_pods_total"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured."""

    plan: ReclaimPlan
    seconds: float
    """From the first Deployment of an owner until each owner has what is guaranteed to it."""
    evicted: int
    operator_cpu: float
    """CPU seconds of the operator in that time."""

    def to_json(self) -> Mapping[str, Any]:
        """Return the JSON line."""
        plan = self.plan
        wanted = plan.owners * plan.guaranteed
        return {
            "bench": "reclaim",
            "nodes": plan.nodes,
            "borrowers": plan.borrowers,
            "owners": plan.owners,
            "guaranteed": plan.guaranteed,
            "takenBack": wanted,
            "seconds": round(self.seconds, 1),
            "perSecond": round(wanted / self.seconds, 2),
            "evicted": self.evicted,
            "operatorCpuSeconds": round(self.operator_cpu, 2),
        }


class _Use:
    """How many GPUs each namespace has, as a client sees it."""

    def __init__(self, api: Api) -> None:
        self._having: dict[str, str] = {}
        """Namespace by UID of a claim that has one."""
        self.claims = Reflector(api, CLAIMS.path(), self._note)

    def of(self, teams: Sequence[str]) -> Counter[str]:
        """Return the GPUs of these teams."""
        found = Counter(self._having.values())
        return Counter({team: found[team] for team in teams})

    def _note(self, uid: str, item: Json | None) -> None:
        if item is not None and "allocation" in item.get("status", {}):
            self._having[uid] = item["metadata"]["namespace"]
        else:
            self._having.pop(uid, None)


async def measure(
    plan: ReclaimPlan, binaries: Binaries, show: Callable[[str, int], None] = lambda _text, _count: None
) -> Figures:
    """Run on a control plane of its own. `show` receives what is being done, and how many GPUs came back."""
    show("starting", 0)
    async with prepared(Who.OURS, plan.workload, binaries, manifests=EVICTING_MANIFESTS) as cluster:
        api, use = cluster.control_plane.api, _Use(cluster.control_plane.api)
        await _prepare(cluster, plan)
        async with beside(use.claims.run()):
            await use.claims.listed.wait()
            show("borrowing", 0)
            await _deploy(api, plan, plan.of_borrowers())
            await _until(lambda: use.of(plan.of_borrowers()).total() == plan.gpus)
            await settled(cluster.pids)
            figures = await _take_back(cluster, plan, use, show)
        cluster.control_plane.check()
        claims, _ = await api.items(CLAIMS.path())
        refuse_doubled(claims)
        short = {
            team: count for team, count in use.of(plan.of_borrowers()).items() if count < plan.guaranteed
        }
        if short:
            raise TestbedError(f"teams have less than is guaranteed to them: {short}")
        return figures


async def _take_back(
    cluster: Cluster, plan: ReclaimPlan, use: _Use, show: Callable[[str, int], None]
) -> Figures:
    if cluster.probe is None:
        raise TestbedError("the operator was not started")
    evicted, cpu = await cluster.probe.metrics(), usages(cluster.pids)[OPERATOR].cpu
    began = time.monotonic()
    await _deploy(cluster.control_plane.api, plan, plan.of_owners())

    def done() -> bool:
        having = use.of(plan.of_owners())
        show("taking back", sum(min(count, plan.guaranteed) for count in having.values()))
        return all(count >= plan.guaranteed for count in having.values())

    await _until(done)
    seconds = time.monotonic() - began
    spent = usages(cluster.pids)[OPERATOR].cpu - cpu
    now = await cluster.probe.metrics()
    return Figures(plan, seconds, round(now[_EVICTED] - evicted.get(_EVICTED, 0.0)), spent)


async def _prepare(cluster: Cluster, plan: ReclaimPlan) -> None:
    control_plane = cluster.control_plane
    await control_plane.api.create(POLICIES.path(), plan.policy())
    for team in (*plan.of_borrowers(), *plan.of_owners()):
        metadata = {"name": team, "labels": {MANAGED: "true"}}
        await control_plane.api.create(NAMESPACES.path(), {"metadata": metadata})
        await control_plane.api.create(CLAIM_TEMPLATES.path(namespace=team), plan.template())
    for quota in plan.quotas():
        await control_plane.api.create(QUOTAS.path(), quota)


async def _deploy(api: Api, plan: ReclaimPlan, teams: list[str]) -> None:
    for team, body in plan.deployments(teams):
        await api.create(f"/apis/apps/v1/namespaces/{team}/deployments", body)


async def _until(done: Callable[[], bool]) -> None:
    async def look() -> bool:
        return done()

    await eventually(look, within=_WITHIN)
