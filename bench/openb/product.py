"""Replay of one seed through the product: slices with one device per GPU, `allocate`, `hold`, `learn`, free cpu and memory.

In: a trace, a seed, a strategy, who places pods without devices. Out: every arrival with its
verdict, and the seconds that each claim took. A node has a device per GPU with the capacity `milli`
of 1000; a pod has a claim for `num_gpu` devices with `gpu_milli` each, and a selector where it
accepts only some models. Nodes are named by their rank, so that the lowest rank wins among equals.
A pod is bound before the next one arrives: its cpu and memory are then facts of the state.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand, HostResources
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice
from bench.openb.model import WHOLE, PodRequest
from bench.openb.replay import Arrival
from bench.openb.trace import Pod, Seed, Trace
from bench.scenariorun import operators_collector

DRIVER = "gpu.example.com"
MIB = 1 << 20
PERCENT = 100


class CpuPods(Enum):
    """Who places the pods without devices."""

    KUBE = "kube"
    """kube-scheduler's rule LeastAllocated, over cpu and memory with equal weight; its other scores are left out."""
    ADVICE = "advice"
    """The product's curve: where they strand the least device value. The operator does not place such pods today."""


@dataclass(slots=True)
class _Host:
    """The cpu and memory of a node."""

    allocatable: HostResources
    left: HostResources

    def least_allocated(self, asked: HostResources) -> int:
        """Return kube-scheduler's score of the node for a pod, 0 to 100 (plugin NodeResourcesFit, LeastAllocated)."""
        left = self.left.less(asked)
        return (
            left.cpu * PERCENT // self.allocatable.cpu + left.memory * PERCENT // self.allocatable.memory
        ) // 2


class ProductReplay:
    """One run of one seed."""

    def __init__(
        self,
        trace: Trace,
        seed: Seed,
        strategy: Strategy,
        cpu_pods: CpuPods,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` returns seconds."""
        self.seconds: list[float] = []
        """Seconds per claim, for `allocate`, `hold`, `learn` and `put_host` together. Left out: reading the claim, and finding the
        nodes with enough cpu and memory, which the operator keeps from claim to claim as this replay does."""
        self._trace = trace
        self._seed = seed
        self._terms = Terms(strategy)
        self._cpu_pods = cpu_pods
        self._clock = clock
        self._state = State()
        self._hosts: dict[str, _Host] = {}
        self._claims: dict[PodRequest, Claim] = {}
        self._fitting: dict[HostResources, set[str]] = {}
        """The nodes with enough left, by what a pod requests."""
        self._bound: list[str] = []
        """The node of every pod that was placed."""
        self._seen: dict[HostResources, int] = {}
        """How many bound pods `_fitting` takes into account."""
        self._fill()

    def run(self, tick: Callable[[], None] = lambda: None) -> Iterator[Arrival]:
        """Yield every arrival after it was placed or dropped. The garbage collector is scheduled as in the operator meanwhile."""
        with operators_collector():
            for number, index in enumerate(self._seed.arrivals):
                pod = self._trace.pods[index]
                placed = self._place(pod, number) if pod.request.devices else self._place_without_devices(pod)
                tick()
                yield Arrival(pod.request.total_milli, pod.request, placed)

    def _fill(self) -> None:
        """Put nodes, slices and the device class into the state."""
        state = self._state
        state.put_class(
            DeviceClass.from_json(
                {
                    "metadata": {"name": "gpu"},
                    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
                }
            )
        )
        for node, rank in zip(self._trace.nodes, self._seed.ranks, strict=True):
            name = f"n{rank:05d}"
            resources = HostResources(node.free.cpu, node.memory * MIB)
            self._hosts[name] = _Host(resources, resources)
            state.put_node(name, {})
            state.put_host(name, resources)
            state.put_slice(Slice.from_json(node_slice(name, node.free.model, len(node.free.free_milli))))
        state.settle()

    def _place(self, pod: Pod, number: int) -> bool:
        asked = HostResources(pod.request.cpu, pod.memory * MIB)
        found = self._claims.get(pod.request)
        if found is None:
            found = self._claims[pod.request] = _claim(pod.request)
        claim = replace(found, name=f"claim-{number}", uid=f"uid-{number}")
        demand = Demand((claim,), frozenset(self._nodes(asked)), host=HostDemand(asked), seed=claim.name)
        state = self._state
        began = self._clock()
        answer = allocate(state, demand, self._terms)
        if answer.asked is not None:
            state.learn(answer.asked, asked)
        if isinstance(answer, Decision):
            state.hold(claim.uid, answer.allocations[0].results)
            self._bind(answer.node, asked)
        self.seconds.append(self._clock() - began)
        return isinstance(answer, Decision)

    def _place_without_devices(self, pod: Pod) -> bool:
        asked = HostResources(pod.request.cpu, pod.memory * MIB)
        nodes = self._nodes(asked)
        if not nodes:
            return False
        if self._cpu_pods is CpuPods.KUBE:
            hosts = self._hosts
            self._bind(min(nodes, key=lambda name: (-hosts[name].least_allocated(asked), name)), asked)
            return True
        answer = allocate(self._state, Demand((), frozenset(nodes), host=HostDemand(asked)), self._terms)
        if isinstance(answer, Decision):
            self._bind(answer.node, asked)
        return isinstance(answer, Decision)

    def _nodes(self, asked: HostResources) -> set[str]:
        """Return the nodes with enough cpu and memory."""
        nodes = self._fitting.get(asked)
        if nodes is None:
            nodes = self._fitting[asked] = {
                name for name, host in self._hosts.items() if host.left.holds(asked)
            }
        else:
            # What a node has left only falls.
            for name in self._bound[self._seen[asked] :]:
                if not self._hosts[name].left.holds(asked):
                    nodes.discard(name)
        self._seen[asked] = len(self._bound)
        return nodes

    def _bind(self, name: str, asked: HostResources) -> None:
        host = self._hosts[name]
        host.left = host.left.less(asked)
        self._state.put_host(name, host.left)
        self._bound.append(name)


def node_slice(node: str, model: str, count: int) -> dict[str, object]:
    """Return the slice of a node, as JSON."""
    device = {
        "attributes": {"model": {"string": model}},
        "capacity": {"milli": {"value": str(WHOLE)}},
        "allowMultipleAllocations": True,
    }
    return {
        "metadata": {"name": node, "uid": node},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} | device for index in range(count)],
        },
    }


def _claim(request: PodRequest) -> Claim:
    exact: dict[str, object] = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": request.devices,
        "capacity": {"requests": {"milli": str(request.milli)}},
    }
    if request.models:
        models = ", ".join(f'"{model}"' for model in sorted(request.models))
        exact["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model in [{models}]'}}]
    devices = {"requests": [{"name": "gpu", "exactly": exact}]}
    return Claim.from_json(
        {"metadata": {"name": "claim", "namespace": "openb", "uid": "uid"}, "spec": {"devices": devices}}
    )
