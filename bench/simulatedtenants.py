"""Tenants: namespaces that always have pods waiting, on a part of the openb cluster, and a late one; what decides is the operator's own cycle.

In: the trace, the number of a seed, how the run is. Out: what each tenant uses after each pass, what lies idle because it is reserved,
how long large pods waited. The nodes are drawn by the seed, and for each tenant a sequence of pods with their lifetimes, which is the same
whatever the run is. A pass is made each minute.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from apportion.cluster.kinds import CLASSES, NAMESPACES, NODES, POLICIES, QUOTAS, SLICES
from apportion.dra.allocation import Allocation, DeviceResult
from bench.openb.model import WHOLE
from bench.openb.product import DRIVER, node_slice
from bench.openb.trace import Node, Pod, Trace
from bench.simulatedcluster import SimulatedCluster, SimulatedPod

WEIGHTS = (1, 1, 1, 2, 2, 3)
"""Of the tenants that always ask."""
LATE = "late"
WAITING = 24
"""Pods of each tenant that wait."""
LIFETIME = 12
"""Passes that a pod lives on average after it was served."""
GUARANTEED = 0.1
"""Part of the cluster that is guaranteed to the late tenant."""
LARGEST_LATE = WHOLE
"""Milli of the largest pod of the late tenant: it has its guarantee when no such pod is left of it."""
STEP = 60.0
"""Seconds between passes."""
LARGE = 8 * WHOLE
"""Milli of a large pod."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """What distinguishes the runs of one seed."""

    quotas: bool
    reserved: int
    """`queue.mostReserved` of the policy."""
    draw: str = ""
    """Which of the sequences of pods."""
    declares: bool = False
    """Whether pods say how long they run: 1 to 3 times as long as they do."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    pod: Pod
    lifetime: int
    """Passes."""
    since: int
    """The pass before which it came."""


@dataclass(slots=True)
class Tenants:
    """One run."""

    trace: Trace
    number: int
    """Of the seed."""
    nodes: int
    run: Run
    used: Counter[str] = field(default_factory=Counter)
    """Milli, by tenant."""
    waits: list[int] = field(default_factory=list)
    """Passes that large pods waited that were served."""
    large: int = 0
    """Large pods that came."""
    capacity: int = 0
    """Milli of all devices."""
    step: int = 0
    """Passes so far."""
    weights: dict[str, int] = field(init=False)
    _cluster: SimulatedCluster = field(default_factory=SimulatedCluster)
    _pods: list[Pod] = field(init=False)
    _waiting: dict[str, dict[str, _Waiting]] = field(init=False)
    """By tenant and name."""
    _sequences: dict[str, random.Random] = field(init=False)
    _running: dict[str, tuple[str, Pod, int, Allocation]] = field(default_factory=dict)
    """Tenant, pod, the pass before which it ends, and its devices, by name."""
    _made: int = 0

    def __post_init__(self) -> None:
        """Show the cycle the cluster; needs a running event loop."""
        self.weights = {f"tenant-{number}": weight for number, weight in enumerate(WEIGHTS)}
        self._pods = [pod for pod in self.trace.pods if pod.request.devices]
        self._waiting = {name: {} for name in (*self.weights, LATE)}
        draw = self.run.draw
        self._sequences = {
            name: random.Random(f"fairness/{self.number}/{name}/{draw}") for name in self._waiting
        }
        chosen = random.Random(f"fairness/{self.number}").sample(self.trace.nodes, self.nodes)
        self.capacity = sum(sum(node.free.free_milli) for node in chosen)
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        self._cluster.observe(
            CLASSES, "gpu", spec={"selectors": selectors}, labels={"apportion.dev/managed": "true"}
        )
        queue = {"mostReserved": self.run.reserved}
        self._cluster.observe(POLICIES, "policy", spec={"deviceClasses": {"names": ["gpu"]}, "queue": queue})
        for node in chosen:
            self._show(node)
        for name in self._waiting:
            self._cluster.observe(NAMESPACES, name, labels={"tenant": name})
            if self.run.quotas:
                self._cluster.observe(QUOTAS, name, spec=self._quota(name))

    @property
    def guaranteed(self) -> int:
        """Milli that are guaranteed to the late tenant."""
        return int(self.capacity * GUARANTEED)

    def advance(self, *, late: bool) -> float:
        """Let pods end and come, and make a pass; returns its CPU seconds. `late`: the late tenant asks, too."""
        self._end()
        self._ask(late=late)
        served, took = self._cluster.decide()
        for tenant, waiting in self._waiting.items():
            for name in served.keys() & waiting.keys():
                found = waiting.pop(name)
                self._running[name] = tenant, found.pod, self.step + found.lifetime, served[name]
                self.used[tenant] += found.pod.request.total_milli
                if found.pod.request.total_milli >= LARGE:
                    self.waits.append(self.step - found.since)
        self._cluster.time.now += STEP
        self.step += 1
        return took

    def idle(self) -> int:
        """Return the milli that nobody uses because they are reserved."""
        used: Counter[Any] = Counter()
        for _, _, _, allocation in self._running.values():
            for result in allocation.results:
                used[result.device] += _milli(result)
        kept: Counter[Any] = Counter()
        for each in self._cluster.cycle.reserved:
            for result in each.plan.results:
                kept[result.device] += _milli(result)
        return sum(min(milli, max(WHOLE - used[device], 0)) for device, milli in kept.items())

    def _end(self) -> None:
        for name in [name for name, (_, _, until, _) in self._running.items() if until <= self.step]:
            tenant, pod, _, _ = self._running.pop(name)
            self.used[tenant] -= pod.request.total_milli
            self._cluster.end(name)

    def _ask(self, *, late: bool) -> None:
        """Let every tenant have its pods waiting; the late one pods of one device at most."""
        for tenant, waiting in self._waiting.items():
            while len(waiting) < WAITING and (late or tenant != LATE):
                sequence = self._sequences[tenant]
                pod = sequence.choice(self._pods)
                if tenant == LATE and pod.request.total_milli > LARGEST_LATE:
                    continue
                lifetime = 1 + int(sequence.expovariate(1 / LIFETIME))
                factor = sequence.uniform(1.0, 3.0)
                self._made += 1
                name = f"p{self._made:06d}"
                waiting[name] = _Waiting(pod, lifetime, self.step)
                self.large += pod.request.total_milli >= LARGE
                requests = {"cpu": f"{pod.request.cpu}m", "memory": f"{pod.memory}Mi"}
                declares = lifetime * STEP * factor if self.run.declares else None
                self._cluster.arrive(name, SimulatedPod(tenant, _exactly(pod), requests, declares))

    def _show(self, node: Node) -> None:
        room = {"cpu": f"{node.free.cpu}m", "memory": f"{node.memory}Mi", "pods": "500"}
        self._cluster.observe(NODES, node.name, status={"allocatable": room})
        raw: Json = node_slice(node.name, node.free.model, len(node.free.free_milli))
        self._cluster.observe(SLICES, node.name, spec=raw["spec"])

    def _quota(self, name: str) -> Json:
        entry: Json = {"name": "gpus", "capacity": f"{DRIVER}/milli", "weight": self.weights.get(name, 1)}
        if name == LATE:
            entry["guaranteed"] = self.guaranteed
        return {
            "cohort": "all", "namespaceSelector": {"matchLabels": {"tenant": name}}, "resources": [entry]
        }  # fmt: skip


def _milli(result: DeviceResult) -> int:
    consumed = result.consumed.get("milli")
    return consumed.nano // 10**9 if consumed is not None else WHOLE


def _exactly(pod: Pod) -> Json:
    request = pod.request
    exact: Json = {"count": request.devices, "capacity": {"requests": {"milli": str(request.milli)}}}
    if request.models:
        models = ", ".join(f'"{model}"' for model in sorted(request.models))
        exact["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model in [{models}]'}}]
    return exact
