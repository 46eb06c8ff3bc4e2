"""Read a trace: nodes, pods, the order of arrival and the ranks of nodes for one seed.

In: the folder with the files of the openb data set. Out: Trace and Seed. Raises BrokenInput with the file and the defect.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apportion.errors import BrokenInput
from bench.openb.model import WHOLE, FreeNode, PodRequest
from bench.openb.rows import path_of, read_rows

FULL = 1.3
"""Requested milli of all arrivals, in capacities of the cluster."""


@dataclass(frozen=True, slots=True)
class Node:
    """An empty node."""

    name: str
    free: FreeNode
    memory: int
    """MiB."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the list."""

    name: str
    request: PodRequest
    memory: int
    """MiB."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A cluster and its pod list."""

    name: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]

    @property
    def capacity(self) -> int:
        """Return the milli of all devices."""
        return WHOLE * sum(len(node.free.free_milli) for node in self.nodes)

    def demand(self) -> Mapping[PodRequest, int]:
        """Return how often each request occurs in the pod list: all that the data set allows a policy to know."""
        return Counter(pod.request for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Seed:
    """One order of arrival."""

    number: int
    arrivals: tuple[int, ...]
    """Indexes into the pod list."""
    ranks: tuple[int, ...]
    """Rank of each node: the lowest wins among equals."""


def read_trace(folder: Path, name: str) -> Trace:
    """Read the node list and the pod list `openb_pod_list_<name>.csv`, plain or gzipped."""
    nodes = tuple(
        Node(
            row["sn"],
            FreeNode(_number(row, "cpu_milli"), row["model"], (WHOLE,) * _number(row, "gpu")),
            _number(row, "memory_mib"),
        )
        for row in read_rows(folder, "openb_node_list_gpu_node.csv")
    )
    pods = tuple(
        Pod(row["name"], _request(row), _number(row, "memory_mib"))
        for row in read_rows(folder, f"openb_pod_list_{name}.csv")
    )
    return Trace(name, nodes, pods)


def read_seed(folder: Path, trace: Trace, number: int) -> Seed:
    """Read a published seed; draw one by the same rules where the folder has none."""
    column = f"s{number}"
    arrivals, ranks = f"arrivals_{trace.name}.csv", f"node_rank_{trace.name}.csv"
    if not (path_of(folder, arrivals).exists() and path_of(folder, ranks).exists()):
        return make_seed(trace, number)
    order = [row.get(column) for row in read_rows(folder, arrivals)]
    if order[:1] == [None]:
        return make_seed(trace, number)
    by_name = {row["sn"]: _number(row, column) for row in read_rows(folder, ranks)}
    return Seed(
        number,
        tuple(int(index) for index in order if index),
        tuple(by_name[node.name] for node in trace.nodes),
    )


def make_seed(trace: Trace, number: int) -> Seed:
    """Draw an order of arrival and ranks by the rules of the data set, with Python's random generator."""
    rng = random.Random(f"{trace.name}/{number}")
    order = sorted(range(len(trace.pods)), key=lambda index: trace.pods[index].name)
    rng.shuffle(order)
    target = FULL * trace.capacity
    total = sum(pod.request.total_milli for pod in trace.pods)
    if total > target:
        while total > target:
            total -= trace.pods[order.pop(rng.randrange(len(order)))].request.total_milli
    else:
        while True:
            drawn = rng.randrange(len(trace.pods))
            if total + trace.pods[drawn].request.milli > target:
                break
            total += trace.pods[drawn].request.total_milli
            order.append(drawn)
    ranks = list(range(len(trace.nodes)))
    rng.shuffle(ranks)
    return Seed(number, tuple(order), tuple(ranks))


def _request(row: Mapping[str, str]) -> PodRequest:
    models = frozenset(model for model in (row.get("gpu_spec") or "").split("|") if model)
    return PodRequest(_number(row, "cpu_milli"), _number(row, "num_gpu"), _number(row, "gpu_milli"), models)


def _number(row: Mapping[str, str], field: str) -> int:
    try:
        return int(row[field])
    except (KeyError, ValueError):
        raise BrokenInput(f"{row.get(field)!r} is not a whole number", field=field) from None
