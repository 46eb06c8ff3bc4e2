"""Simulation: pods arrive, wait, run and end in simulated time, on nodes with whole GPUs; what decides is the operator's own cycle.

In: the nodes' rows of the openb data set, a mode of the queue, arrivals. Out: utilization, and how long whom it took to start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from apportion.cluster.kinds import CLASSES, NODES, POLICIES, SLICES
from apportion.scheduling.backfill.heads import members_of
from bench.simulatedcluster import EPOCH, SimulatedCluster, SimulatedPod

LONGEST = 4 * 3600.0
"""Seconds; a tenth of the pods ran longer, up to months."""
LARGE = 8
"""GPUs of the demands that the comparison is about."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One pod that comes."""

    at: float
    """Seconds from the beginning."""
    devices: int
    cpu: int
    """Thousandths of a core."""
    memory: int
    """MiB."""
    runs: float
    """Seconds."""
    declares: float | None
    """Seconds; None: nothing."""


@dataclass(frozen=True, slots=True)
class Mode:
    """What is compared."""

    name: str
    reserved: int
    """`queue.mostReserved` of the policy."""
    declares: bool = True
    """Whether pods say how long they run."""


@dataclass(slots=True)
class Outcome:
    """What came of one mode."""

    waits: dict[int, list[float]] = field(default_factory=dict)
    """Seconds, by GPUs of the demand; of one that still waits at the end the time until then."""
    used: float = 0.0
    """GPU seconds after the warm-up."""
    reserved: int = 0
    """Demands for which devices were reserved with a known start."""
    late: list[float] = field(default_factory=list)
    """Seconds by which those of them started later than first expected that did, by more than a pass."""
    unserved: int = 0


class Simulation:
    """One mode over all arrivals."""

    def __init__(self, nodes: Sequence[Mapping[str, str]], mode: Mode) -> None:
        """`nodes`: rows of the node list."""
        self._cluster = SimulatedCluster()
        self._mode = mode
        self._waiting: dict[str, Arrival] = {}
        self._running: list[tuple[float, str]] = []
        self._expected: dict[str, float] = {}
        self.outcome = Outcome()
        for row in nodes:
            self._node(row)
        self._cluster.observe(CLASSES, "gpu", spec={})
        queue = {"reserveAfter": "60s", "mostReserved": mode.reserved}
        self._cluster.observe(POLICIES, "p", spec={"deviceClasses": {"names": ["gpu"]}, "queue": queue})

    def run(self, arrivals: Sequence[Arrival], *, step: float, warm: float, until: float) -> Outcome:
        """Let all of it happen; what is used is counted from `warm` to `until`, in seconds."""
        coming = iter([*arrivals, None])
        following = next(coming)
        number, time = 0, self._cluster.time
        while time.now < until:
            while self._running and self._running[0][0] <= time.now:
                self._cluster.end(heappop(self._running)[1])
            while following is not None and following.at <= time.now:
                self._arrive(f"p{number:06}", following)
                number += 1
                following = next(coming)
            self._pass(step, warm, until)
            time.now += step
        for arrival in self._waiting.values():
            if arrival.at >= warm:
                self.outcome.waits.setdefault(arrival.devices, []).append(until - arrival.at)
                self.outcome.unserved += 1
        return self.outcome

    def _pass(self, step: float, warm: float, until: float) -> None:
        served, _ = self._cluster.decide()
        for each in self._cluster.cycle.reserved:
            if each.plan.start is not None:
                name = members_of(each.head)[0].claims[0].name
                self._expected.setdefault(name, each.plan.start - EPOCH)
        now = self._cluster.time.now
        for name in served:
            arrival = self._waiting.pop(name)
            heappush(self._running, (now + arrival.runs, name))
            over = min(now + arrival.runs, until) - max(now, warm)
            self.outcome.used += arrival.devices * max(over, 0.0)
            if arrival.at >= warm:
                self.outcome.waits.setdefault(arrival.devices, []).append(now - arrival.at)
            if (expected := self._expected.get(name)) is not None:
                self.outcome.reserved += 1
                if now > expected + step:  # a pass sees an end up to a step after it
                    self.outcome.late.append(now - expected)

    def _arrive(self, name: str, arrival: Arrival) -> None:
        requests = {"cpu": f"{arrival.cpu}m", "memory": f"{arrival.memory}Mi"}
        declares = arrival.declares if self._mode.declares else None
        self._cluster.arrive(name, SimulatedPod("openb", {"count": arrival.devices}, requests, declares))
        self._waiting[name] = arrival

    def _node(self, row: Mapping[str, str]) -> None:
        name = row["sn"]
        allocatable = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi", "pods": "110"}
        self._cluster.observe(NODES, name, status={"allocatable": allocatable})
        devices = [{"name": f"gpu-{number}"} for number in range(int(row["gpu"]))]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
        self._cluster.observe(SLICES, name, spec=spec)
