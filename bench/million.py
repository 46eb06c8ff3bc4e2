"""`python -m bench.million`: a million placements: CPU time of a cold start, memory, and time per claim.

In: a number of nodes with eight H100, each published as a GPU with its 25 MIG placements (208 devices a node). Out: a
table, and with `--json` the same figures: cold start from JSON, bytes per placement, claims against 1,000 nodes.
`python -m bench.million --only --nodes N` measures one size in this process and prints one JSON line.

The cold start is the allocator's: decode slices, put them into the state, classify nodes, collect garbage. It has no
API server, no watch, no pods and no claims. Claims are allocated one by one and held; the rate leaves out releases, the
demand is not learned, and by default claims request a tenth of the memory slices, so the cluster stays nearly empty.
"""

import gc
import importlib.util
import itertools
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import Slice
from apportion.errors import NotReady
from bench.folders import shared
from bench.refusals import run_command
from bench.scenariorun import operators_collector, percentile

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes; 4808 hold a million placements.")] = 5000,
    demand: Annotated[float, typer.Option(help="Requested fraction of the memory slices.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the claims.")] = 1,
    only: Annotated[bool, typer.Option("--only", help="Measure here; one JSON line.")] = False,  # noqa: FBT002
    unshared: Annotated[  # noqa: FBT002
        bool, typer.Option("--unshared", help="Make every node a node class of its own.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
) -> None:
    """Measure cold start, memory and claims: 1,000 nodes, all nodes, and 1,000 nodes that are each a class of their own."""
    console = Console(stderr=only)
    if only:
        sys.stdout.write(orjson.dumps(measure(nodes, demand, seed, unshared=unshared)).decode() + "\n")
        return
    small = min(1000, nodes)
    rows = []
    for count, alone in ((small, False), (nodes, False), (small, True)):
        console.print(f"measuring {count} nodes{', each its own class' if alone else ''} ...", style="dim")
        rows.append(_in_new_process(count, demand, seed, unshared=alone))
    console.print(_table(rows))
    ratio = rows[1]["p99CpuMs"] / max(rows[0]["p99CpuMs"], 1e-9)
    console.print(f"p99 at {nodes} nodes is [bold]{ratio:.2f}[/] times that at {small}, in CPU time")
    if json is not None:
        json.write_bytes(orjson.dumps({"rows": rows, "p99Ratio": ratio}, option=orjson.OPT_INDENT_2))


def measure(nodes: int, demand: float, seed: int, *, unshared: bool) -> Mapping[str, Any]:
    """Measure one size in this process: a cold start, then the claims and releases of the fleet."""
    fleet = Fleet.of(nodes, demand, seed, unshared=unshared)
    bare = _resident()
    clock = Clock()
    slices = []
    for raw in fleet.slices():
        with clock("read"):
            slices.append(Slice.from_json(orjson.loads(raw)))
    read = _resident()
    state = State()
    with clock("state"):
        for name in fleet.names:
            state.put_node(name, {})
        for one in slices:
            state.put_slice(one)
    placements = sum(len(one.devices) for one in slices)
    del slices
    with clock("views"):
        for row in fleet.classes:
            state.put_class(DeviceClass.from_json(row))
        state.warm_up()
    ready = _resident()
    with ExitStack() as afterwards:
        with clock("collect"):
            afterwards.enter_context(operators_collector())
        figures = _claims(state, fleet)
        held = _resident() - ready
    cold = clock.spent["read"] + clock.spent["state"] + clock.spent["views"] + clock.spent["collect"]
    return {
        "nodes": nodes,
        "unshared": unshared,
        "placements": placements,
        "coldSeconds": cold,
        "spent": clock.spent,
        "slicesMiB": (read - bare) / MIB,
        "stateMiB": (ready - read) / MIB,
        "bytesPerPlacement": (ready - read) / placements,
        "residentMiB": ready / MIB,
        "heldMiB": held / MIB,
        **figures,
    }


def _claims(state: State, fleet: "Fleet") -> Mapping[str, Any]:
    claims = {row["metadata"]["name"]: Claim.from_json(row) for row in fleet.claims}
    times: list[float] = []
    cpu: list[float] = []
    unplaced = 0
    terms = Terms(Strategy.LEAST_FRAGMENTATION)
    held: set[str] = set()
    for event in fleet.events:
        if event["op"] == "release":
            if event["claim"] in held:
                state.release(event["claim"])
                state.settle()
            continue
        claim = claims[event["claim"]]
        began, ticks = time.perf_counter(), time.thread_time()
        found = allocate(state, Demand((claim,)), terms)
        if isinstance(found, Decision):
            state.hold(claim.name, found.allocations[0].results)
            held.add(claim.name)
        else:
            unplaced += 1
        cpu.append((time.thread_time() - ticks) * 1000)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    cpu.sort()
    return {
        "claims": len(times),
        "unplaced": unplaced,
        "claimsPerCpuSecond": 1000 * len(cpu) / sum(cpu) if cpu else 0.0,
        "p99Ms": percentile(times, 0.99),
        "maxMs": percentile(times, 1),
        "p99CpuMs": percentile(cpu, 0.99),
        "maxCpuMs": percentile(cpu, 1),
    }


_ROOT = re.compile(rb'"pci0000:\w+"')
_NUMA = re.compile(rb'numaNode":\{"int":\d+\}')


@dataclass(frozen=True, slots=True)
class Fleet:
    """The cluster and claims of the scenario `mig`, with slices copied from its first node: faster than the generator, and lazy."""

    names: tuple[str, ...]
    classes: tuple[Mapping[str, Any], ...]
    claims: tuple[Mapping[str, Any], ...]
    events: tuple[Mapping[str, Any], ...]
    pattern: tuple[bytes, ...]
    """The slices of the first node."""
    seed: int
    unshared: bool

    @classmethod
    def of(cls, nodes: int, demand: float, seed: int, *, unshared: bool) -> "Fleet":
        """Make the fleet from the shared generator's scenario `mig`; raises BrokenInput without the generator."""
        made = _generator()
        names, classes, _, claims, events = made.mig(random.Random(seed), nodes, demand)
        _, _, slices, _, _ = made.mig(random.Random(seed), 1, demand)
        pattern = tuple(orjson.dumps(row) for row in slices)
        return cls(
            tuple(row["metadata"]["name"] for row in names),
            tuple(classes),
            tuple(claims),
            tuple(events),
            pattern,
            seed,
            unshared,
        )

    def slices(self) -> Iterator[bytes]:
        """Yield every slice as JSON; UUIDs differ between nodes, with `unshared` also PCIe roots and NUMA nodes."""
        first = self.names[0].encode()
        rng = random.Random(self.seed)
        for name, raw in itertools.product(self.names, self.pattern):
            made = raw.replace(first, name.encode())
            if b'"uuid"' in made:
                start = made.index(b"GPU-")
                made = made.replace(made[start : start + 40], b"GPU-%036x" % rng.getrandbits(128))
                if self.unshared:
                    made = _ROOT.sub(b'"pci0000:%x0"' % rng.randrange(8), made)
                    made = _NUMA.sub(b'numaNode":{"int":%d}' % rng.randrange(4), made)
            yield made


class Clock:
    """CPU seconds by name of the work."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._began = 0.0
        self._name = ""

    def __call__(self, name: str) -> "Clock":
        """Charge the following block to this name."""
        self._name = name
        return self

    def __enter__(self) -> None:
        """Begin."""
        self._began = time.process_time()

    def __exit__(self, *_: object) -> None:
        """End."""
        took = time.process_time() - self._began
        self.spent[self._name] = self.spent.get(self._name, 0.0) + took


def _generator() -> Any:
    path = shared("peer/scenarios.py")
    spec = importlib.util.spec_from_file_location("scenarios", path)
    if spec is None or spec.loader is None:
        raise NotReady(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _in_new_process(nodes: int, demand: float, seed: int, *, unshared: bool) -> Mapping[str, Any]:
    """Measure in a new process, so that its resident memory is that of this size alone."""
    command = [sys.executable, "-m", "bench.million", "--only", "--nodes", str(nodes)]
    command += ["--demand", str(demand), "--seed", str(seed), *(["--unshared"] if unshared else [])]
    made = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
    )
    if made.returncode:
        raise NotReady(made.stderr.decode(errors="replace").strip()[-500:].removeprefix("error: "))
    found: Mapping[str, Any] = orjson.loads(made.stdout)
    return found


def _table(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(title="nodes with 8 H100, every MIG placement published")
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_column(
            f"{row['nodes']} nodes{', each its own class' if row['unshared'] else ''}", justify="right"
        )
    lines = {
        "placements": [f"{row['placements']:,}" for row in rows],
        "cold start, CPU s": [f"{row['coldSeconds']:.1f}" for row in rows],
        "  reading slices": [f"{row['spent']['read']:.1f}" for row in rows],
        "  storing them": [f"{row['spent']['state']:.1f}" for row in rows],
        "  node views and classes": [f"{row['spent']['views']:.1f}" for row in rows],
        "  collecting garbage": [f"{row['spent']['collect']:.1f}" for row in rows],
        "process, MiB": [f"{row['residentMiB']:,.0f}" for row in rows],
        "  slices as read": [f"{row['slicesMiB']:,.0f}" for row in rows],
        "  the allocator's state": [f"{row['stateMiB']:,.0f}" for row in rows],
        "state, bytes per placement": [f"{row['bytesPerPlacement']:.0f}" for row in rows],
        "claims": [f"{row['claims']:,}" for row in rows],
        "unplaced": [f"{row['unplaced']}" for row in rows],
        "claims per CPU second": [f"{row['claimsPerCpuSecond']:,.0f}" for row in rows],
        "p99 ms (CPU)": [f"{row['p99Ms']:.2f} ({row['p99CpuMs']:.2f})" for row in rows],
        "max ms (CPU)": [f"{row['maxMs']:.1f} ({row['maxCpuMs']:.1f})" for row in rows],
    }
    for name, cells in lines.items():
        table.add_row(name, *cells)
    return table


if __name__ == "__main__":
    run_command(main)
