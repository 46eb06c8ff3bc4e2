"""Read a trace: nodes, pods, the order of arrival and the ranks of nodes for one seed.

In: the folder with the files of the openb data set. Out: values; BrokenInput names the file and what is wrong with it.
"""

import csv
import gzip
import io
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apportion.allocator.worth.free import WHOLE, Ask, Free
from apportion.errors import BrokenInput

FULL = 1.3
"""Arrivals go on until this many times the cluster's capacity has been asked for."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it is when empty."""

    name: str
    free: Free
    memory: int
    """MiB."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the list."""

    name: str
    ask: Ask
    memory: int
    """MiB."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A cluster and all pods that may arrive."""

    name: str
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]

    @property
    def capacity(self) -> int:
        """Return the milli of all devices."""
        return WHOLE * sum(len(node.free.rooms) for node in self.nodes)

    def demand(self) -> Mapping[Ask, int]:
        """Return how often each request occurs in the list: all that a policy may know of the pods."""
        return Counter(pod.ask for pod in self.pods)


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
            Free(_number(row, "cpu_milli"), row["model"], (WHOLE,) * _number(row, "gpu")),
            _number(row, "memory_mib"),
        )
        for row in _rows(folder, "openb_node_list_gpu_node.csv")
    )
    pods = tuple(
        Pod(row["name"], _ask(row), _number(row, "memory_mib"))
        for row in _rows(folder, f"openb_pod_list_{name}.csv")
    )
    return Trace(name, nodes, pods)


def read_seed(folder: Path, trace: Trace, number: int) -> Seed:
    """Read a published seed; make one by the same rules where the folder has none."""
    try:
        arrivals = [row[f"s{number}"] for row in _rows(folder, f"arrivals_{trace.name}.csv")]
        by_name = {
            row["sn"]: _number(row, f"s{number}") for row in _rows(folder, f"node_rank_{trace.name}.csv")
        }
    except (KeyError, FileNotFoundError):
        return make_seed(trace, number)
    order = tuple(int(arrival) for arrival in arrivals if arrival)
    return Seed(number, order, tuple(by_name[node.name] for node in trace.nodes))


def make_seed(trace: Trace, number: int) -> Seed:
    """Draw an order of arrival and ranks by the rules of the data set, with Python's generator."""
    rng = random.Random(f"{trace.name}/{number}")
    order = sorted(range(len(trace.pods)), key=lambda index: trace.pods[index].name)
    rng.shuffle(order)
    target = FULL * trace.capacity
    total = sum(pod.ask.size for pod in trace.pods)
    if total > target:
        while total > target:
            total -= trace.pods[order.pop(rng.randrange(len(order)))].ask.size
    else:
        while True:
            drawn = rng.randrange(len(trace.pods))
            if total + trace.pods[drawn].ask.milli > target:
                break
            total += trace.pods[drawn].ask.size
            order.append(drawn)
    ranks = list(range(len(trace.nodes)))
    rng.shuffle(ranks)
    return Seed(number, tuple(order), tuple(ranks))


def _ask(row: Mapping[str, str]) -> Ask:
    models = frozenset(model for model in (row.get("gpu_spec") or "").split("|") if model)
    return Ask(_number(row, "cpu_milli"), _number(row, "num_gpu"), _number(row, "gpu_milli"), models)


def _number(row: Mapping[str, str], field: str) -> int:
    try:
        return int(row[field])
    except ValueError:
        raise BrokenInput(f"{row[field]!r} is not a whole number", field=field) from None


def _rows(folder: Path, name: str) -> Sequence[Mapping[str, str]]:
    return list(_read(folder, name))


def _read(folder: Path, name: str) -> Iterator[Mapping[str, str]]:
    plain, packed = folder / name, folder / f"{name}.gz"
    if packed.exists():
        text = gzip.decompress(packed.read_bytes()).decode()
    else:
        text = plain.read_text(encoding="utf-8")
    yield from csv.DictReader(io.StringIO(text))
