"""Where a workload would fit now if it asked for claims.

In: what it would ask for, a snapshot of the cluster. Out: on which nodes the operator's allocator would place its pods, one after the
other, and why one of them would fit nowhere. What is placed stays taken for the workloads after it. Cpu, memory, other resources, nodeSelector,
node affinity and taints count; volumes and neighbours do not, nor what layouts have not cut yet.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import summary
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.policyterms import terms_of
from apportion.api.contract import GUARD
from apportion.cli.migrateclaims import Plan
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.node import Node
from apportion.dra.nodeconstraints import against
from apportion.dra.pod import Pod
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput
from apportion.scheduling.events.events import with_names

_TOLERATIONS = (Toleration(key=GUARD, operator="Exists"),)


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of a workload."""

    wanted: int
    """How many pods the workload has."""
    nodes: Mapping[str, int]
    """How many pods each node would take."""
    blocked: tuple[str, ...] = ()
    """Why not all of them."""

    @property
    def served(self) -> bool:
        """Whether every pod has a place."""
        return not self.blocked and sum(self.nodes.values()) == self.wanted


@dataclass(slots=True)
class Rehearsal:
    """Places workloads one after the other."""

    snapshot: Snapshot
    _taken: dict[str, Counter[str]] = field(default_factory=dict)
    """What pods that were placed here request, by node."""
    _number: int = 0

    def place(self, plan: Plan) -> Fit:
        """Place the pods of a workload. Raises BrokenInput for a pod that cannot be read."""
        wanted = plan.workload.pods
        if plan.blocked:
            return Fit(wanted, {}, plan.blocked)
        missing = sorted({ask.device_class for ask in plan.asks} - self.snapshot.managed.known)
        if missing:
            return Fit(wanted, {}, (f"DeviceClass {', '.join(missing)} does not exist: install apportion",))
        pod, claims = self._pod(plan), self._claims(plan)
        candidates, reasons = self._candidates(pod)
        nodes: Counter[str] = Counter()
        for _ in range(wanted):
            if not candidates:
                counts = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
                return Fit(wanted, nodes, (f"no node can take the pod: {counts or 'there are no nodes'}",))
            placed, reason = self._place_one(plan, pod, claims, candidates)
            if placed is None:
                return Fit(wanted, nodes, (reason,))
            nodes[placed] += 1
            node = self.snapshot.node(placed)
            if node is not None and (reason := self._short(node, pod)):
                candidates -= {placed}
                reasons[reason] += 1
        return Fit(wanted, nodes)

    def _place_one(
        self, plan: Plan, pod: Pod, claims: tuple[Claim, ...], candidates: frozenset[str]
    ) -> tuple[str | None, str]:
        state, snapshot = self.snapshot.state, self.snapshot
        taken = {node: HostResources.of(used) for node, used in self._taken.items()}
        host = HostDemand(HostResources.of(pod.requests), taken)
        demand = Demand(
            claims, candidates, tolerations=_TOLERATIONS, host=host, seed=f"migrate/{self._number}"
        )
        try:
            answer = allocate(state, demand, terms_of(snapshot.managed.policy(claims[0])))
        except BrokenInput as error:
            return None, str(error)
        if isinstance(answer, Refusal):
            return None, with_names(summary(answer.explanation), snapshot)
        for allocation in answer.allocations:
            self._number += 1
            # Refusals name it as the holder; workloads of a file may have one name.
            state.hold(f"{plan.workload.key} #{self._number}", allocation.results)
        used = self._taken.setdefault(answer.node, Counter())
        used.update({**pod.requests, "pods": 1})
        return answer.node, ""

    def _candidates(self, pod: Pod) -> tuple[frozenset[str], Counter[str]]:
        """Return the nodes that could take the pod beside its devices, and how many each reason rules out."""
        found, reasons = set(), Counter[str]()
        for node in self.snapshot.nodes.values():
            reason = against(node, pod) or self._short(node, pod)
            if reason:
                reasons[reason] += 1
            else:
                found.add(node.name)
        return frozenset(found), reasons

    def _short(self, node: Node, pod: Pod) -> str:
        used = self.snapshot.pod_index.load(node.name)
        taken: Mapping[str, int] = self._taken.get(node.name, {})
        for name, amount in {**pod.requests, "pods": 1}.items():
            left = node.allocatable.get(name, 0) - used.get(name, 0) - taken.get(name, 0)
            if amount > left and node.allocatable:
                return f"too little {name}"
        return ""

    @staticmethod
    def _claims(plan: Plan) -> tuple[Claim, ...]:
        return tuple(
            Claim.from_json(
                {
                    "metadata": {"name": ask.claim, "namespace": plan.workload.namespace, "uid": ask.claim},
                    "spec": {"devices": {"requests": [ask.request()]}},
                }
            )
            for ask in plan.claims
        )

    @staticmethod
    def _pod(plan: Plan) -> Pod:
        spec: dict[str, Any] = plan.patched_spec()
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            asked = container.get("resources", {})
            # As the API server does when it stores a pod.
            asked["requests"] = {**asked.get("limits", {}), **asked.get("requests", {})}
        return Pod.from_json({"metadata": {"name": plan.workload.name}, "spec": spec})
