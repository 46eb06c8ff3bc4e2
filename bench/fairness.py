"""`python -m bench.fairness`: how evenly quotas of a cohort share a cluster, by simulation on a production cluster's nodes and pods.

In: the folder of the openb data set. Out: one JSON line per seed. The nodes are drawn by the seed, and for each tenant a sequence of pods
with their lifetimes, which is the same with quotas and without. All tenants always have pods waiting; the operator's own cycle decides,
its writes are never answered, and a pod lives for some passes from the one that served it. Late in the run a tenant asks for the first
time, for what is guaranteed to it. Reported: Jain's index of the tenants' weighted shares, its mean and its minimum over the passes; how
many passes the late tenant waited until it had its guarantee; the mean of allocated milli in % of all, with quotas, without, and
without on the same nodes with other pods: by how much that differs, two runs do anyway. Nothing is reserved for the first of the queue
unless `--most-reserved` says so: time is not simulated, so every pod has waited for long, and for which of them devices lie idle differs
from run to run by more than quotas do. Jain, Chiu, Hawe, DEC-TR-301, 1984.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import orjson
import structlog
import typer

from apportion.allocator.state import State
from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from bench.observed import UnansweredApi
from bench.openb.product import DRIVER, node_slice
from bench.openb.trace import Pod, Trace, read_trace
from bench.options import BAD_INPUT
from testbed.cycle import build_cycle, now

WEIGHTS = (1, 1, 1, 2, 2, 3)
"""Of the tenants that always ask."""
LATE = "late"
WAITING = 24
"""Pods of each tenant that wait."""
LIFETIME = 12
"""Passes that a pod lives on average after it was served."""
SETTLED = 3 * LIFETIME
"""Passes after which the run is looked at: until then the cluster fills."""
GUARANTEED = 0.1
"""Part of the cluster that is guaranteed to the late tenant."""
Json = dict[str, Any]


def main(
    data: Annotated[Path, typer.Option(help="The folder with the files of the data set.")],
    seed: Annotated[list[int] | None, typer.Option(help="May be repeated; default: 1 to 10.")] = None,
    nodes: Annotated[int, typer.Option(min=4, help="How many of the nodes.")] = 96,
    passes: Annotated[int, typer.Option(min=SETTLED + 1, help="How many passes.")] = 120,
    most_reserved: Annotated[
        int,
        typer.Option(
            min=0, max=64, help="For how many pods devices are reserved at once (queue.mostReserved)."
        ),
    ] = 0,
) -> None:
    """Simulate each seed with quotas and without, and print one JSON line."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        trace = read_trace(data, "default")
    except BrokenInput as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    for number in seed or range(1, 11):
        fair, free, second = (
            asyncio.run(
                _run(
                    _Simulation(trace, number, nodes, draw=draw, quotas=quotas, reserved=most_reserved),
                    passes,
                )
            )
            for draw, quotas in (("", True), ("", False), ("second", False))
        )
        line = {
            "seed": number,
            "jain": round(fmean(fair.jain), 4),
            "jainLeast": round(min(fair.jain), 4),
            "jainWithout": round(fmean(free.jain), 4),
            "latePasses": fair.late,
            "latePassesWithout": free.late,
            "allocated": round(fmean(fair.allocated), 2),
            "allocatedWithout": round(fmean(free.allocated), 2),
            "allocatedWithoutSecond": round(fmean(second.allocated), 2),
            "secondsPerPass": round(fair.seconds / passes, 4),
            "secondsPerPassWithout": round(free.seconds / passes, 4),
        }
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
        sys.stdout.flush()


@dataclass(slots=True)
class Figures:
    """What a run showed."""

    jain: list[float] = field(default_factory=list)
    allocated: list[float] = field(default_factory=list)
    late: int | None = None
    """Passes until the late tenant had its guarantee; None: it never had."""
    seconds: float = 0.0
    """CPU seconds of all passes."""


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 where all are equal, 1/n where one has all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


async def _run(run: "_Simulation", passes: int) -> Figures:
    figures = Figures()
    late_from = passes * 2 // 3
    for step in range(passes):
        run.end(step)
        run.ask(late=step >= late_from)
        figures.seconds += run.decide(step)
        if step >= SETTLED:
            shares = [run.used[name] / weight for name, weight in run.weights.items()]
            figures.jain.append(jain(shares))
            figures.allocated.append(100 * run.used.total() / run.capacity)
        if step >= late_from and figures.late is None and run.used[LATE] >= run.guaranteed - run.largest_late:
            figures.late = step - late_from + 1
    return figures


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A pod that waits."""

    pod: Pod
    lifetime: int
    """Passes."""


class _Simulation:
    """Tenants on a part of the cluster."""

    def __init__(
        self, trace: Trace, number: int, nodes: int, *, draw: str, quotas: bool, reserved: int
    ) -> None:
        """`draw`: which of the sequences of pods; `reserved`: for how many of them devices are reserved at once."""
        self._pods = [pod for pod in trace.pods if pod.request.devices]
        self._snapshot = Snapshot(State(), wake=lambda: None)
        self._version = 0
        self._waiting: dict[str, dict[str, _Waiting]] = {name: {} for name in (*self._names(), LATE)}
        self._sequences = {name: random.Random(f"fairness/{number}/{name}/{draw}") for name in self._waiting}
        self._running: dict[str, tuple[str, Pod, int]] = {}
        """Namespace, pod, and the pass before which it ends, by name."""
        self.weights = dict(zip(self._names(), WEIGHTS, strict=True))
        self.used: Counter[str] = Counter()
        """Milli, by tenant."""
        chosen = random.Random(f"fairness/{number}").sample(trace.nodes, nodes)
        self.capacity = sum(sum(node.free.free_milli) for node in chosen)
        self.guaranteed = int(self.capacity * GUARANTEED)
        self.largest_late = 1000
        """Milli of the largest pod of the late tenant: it has its guarantee when no such pod is left of it."""
        self._observe(kinds.CLASSES, "gpu", spec=_class(), labels={"apportion.dev/managed": "true"})
        policy = {"deviceClasses": {"names": ["gpu"]}, "queue": {"mostReserved": reserved}}
        self._observe(kinds.POLICIES, "policy", spec=policy)
        for node in chosen:
            room = {
                "cpu": f"{node.free.cpu}m", "memory": f"{node.memory}Mi", "pods": "500"
            }  # fmt: skip
            self._observe(kinds.NODES, node.name, status={"allocatable": room})
            raw: Json = node_slice(node.name, node.free.model, len(node.free.free_milli))
            self._observe(kinds.SLICES, node.name, spec=raw["spec"])
        for name in self._waiting:
            self._observe(kinds.NAMESPACES, name, labels={"tenant": name})
            if quotas:
                self._observe(kinds.QUOTAS, name, spec=self._quota(name))
        client: Any = UnansweredApi()
        recorder = Recorder(client, component="bench", clock=time.monotonic, now=now)
        self._cycle = build_cycle(client, self._snapshot, recorder)

    @staticmethod
    def _names() -> list[str]:
        return [f"tenant-{number}" for number in range(len(WEIGHTS))]

    def _quota(self, name: str) -> Json:
        entry: Json = {"name": "gpus", "capacity": f"{DRIVER}/milli", "weight": self.weights.get(name, 1)}
        if name == LATE:
            entry["guaranteed"] = self.guaranteed
        return {
            "cohort": "all", "namespaceSelector": {"matchLabels": {"tenant": name}}, "resources": [entry]
        }  # fmt: skip

    def end(self, step: int) -> None:
        """Let the pods go whose time is over."""
        for name in [name for name, (_, _, until) in self._running.items() if until <= step]:
            tenant, pod, _ = self._running.pop(name)
            self.used[tenant] -= pod.request.total_milli
            for kind in (kinds.PODS, kinds.CLAIMS):
                metadata = {"name": name, "namespace": tenant, "uid": f"{kind.plural}/{name}"}
                self._snapshot.observe(kind, "DELETED", {"metadata": metadata})

    def ask(self, *, late: bool) -> None:
        """Let every tenant have its pods waiting; the late one only then, and pods of one device at most."""
        for tenant, waiting in self._waiting.items():
            while len(waiting) < WAITING and (late or tenant != LATE):
                sequence = self._sequences[tenant]
                pod = sequence.choice(self._pods)
                if tenant == LATE and pod.request.total_milli > self.largest_late:
                    continue
                self._version += 1
                name = f"p{self._version:06d}"
                waiting[name] = _Waiting(pod, 1 + int(sequence.expovariate(1 / LIFETIME)))
                claim = {"devices": {"requests": [{"name": "gpu", "exactly": _exactly(pod)}]}}
                self._observe(kinds.CLAIMS, name, namespace=tenant, spec=claim)
                self._observe(kinds.PODS, name, namespace=tenant, spec=_pod(pod, name))

    def decide(self, step: int) -> float:
        """Make a pass; returns its CPU seconds."""
        before, began = asyncio.all_tasks(), time.process_time()
        self._cycle.once()
        took = time.process_time() - began
        for write in asyncio.all_tasks() - before:
            write.cancel()
        for tenant, name, found in [*self._served()]:
            del self._waiting[tenant][name]
            self._running[name] = tenant, found.pod, step + found.lifetime
            self.used[tenant] += found.pod.request.total_milli
        return took

    def _served(self) -> Iterator[tuple[str, str, _Waiting]]:
        for tenant, waiting in self._waiting.items():
            for name, found in waiting.items():
                claim = self._snapshot.claim(tenant, name)
                if claim is not None and self._snapshot.allocation(claim) is not None:
                    yield tenant, name, found

    def _observe(
        self, kind: ResourceKind, name: str, *, namespace: str = "", labels: Json | None = None, **parts: Json
    ) -> None:
        metadata: Json = {
            "name": name,
            "uid": f"{kind.plural}/{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels or {},
        }
        if namespace:
            metadata["namespace"] = namespace
            # Names rise with age, and age decides within a namespace.
            minutes, seconds = divmod(self._version, 60)
            hours, minutes = divmod(minutes, 60)
            metadata["creationTimestamp"] = (
                f"2026-01-{1 + hours // 24:02}T{hours % 24:02}:{minutes:02}:{seconds:02}Z"
            )
        self._snapshot.observe(kind, "ADDED", {"metadata": metadata, **parts})


def _class() -> Json:
    return {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}


def _exactly(pod: Pod) -> Json:
    request = pod.request
    exact: Json = {
        "deviceClassName": "gpu",
        "count": request.devices,
        "capacity": {"requests": {"milli": str(request.milli)}},
    }
    if request.models:
        models = ", ".join(f'"{model}"' for model in sorted(request.models))
        exact["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model in [{models}]'}}]
    return exact


def _pod(pod: Pod, claim: str) -> Json:
    requests = {"cpu": f"{pod.request.cpu}m", "memory": f"{pod.memory}Mi"}
    return {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }


if __name__ == "__main__":
    typer.run(main)
