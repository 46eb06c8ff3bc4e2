"""`python -m bench.prepare`: the agent's time to prepare and release claims on a node with eight GPUs.

In: number of claims. Out: duration of NodePrepareResources as its caller sees it, and the agent's CPU time per claim.
etcd and kube-apiserver are real. The GPUs are simulated and answer at once: the figures have no vendor latency. There
is no kubelet, no operator, no scheduler and no container; the benchmark makes claims and Partitions itself.
"""

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import orjson
import psutil
import typer
from rich.console import Console
from rich.progress import Progress

from bench.h100node import CARDS, MODEL, PROFILE
from bench.refusals import run_command
from testbed.api import Json
from testbed.binaries import Binaries, provide
from testbed.chaos.agentpool import AgentPool
from testbed.chaos.fakehardware import Placement, placements
from testbed.chaos.node import ChaosNode
from testbed.chaos.nodesetup import chaos_node
from testbed.chaos.simulatedhardware import SimulatedHardware
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.installation import install
from testbed.kubelet.plugin import ClaimKey, PluginError
from testbed.versions import DEFAULT


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds, but for the counts."""

    claims: int
    ready_p50: float
    """Prepare of a partition that is already cut: the usual case, because the agent cuts while the pod is being bound."""
    ready_p99: float
    cold_p50: float
    """Prepare that has to wait for the cut."""
    cold_p99: float
    cpu_per_claim: float
    """The agent's CPU time for everything about a claim: cut, prepare, unprepare, removal, slices and statuses."""
    claims_per_second: float
    """Claims prepared and released per second of the whole run, the making of claims and Partitions included."""


async def measure(
    claims: int, together: int, binaries: Binaries, progress: Progress | None = None
) -> Figures:
    """Prepare and release claims, `together` at a time; every second one is prepared before its partition is cut."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    offered = [
        place
        for card in range(CARDS)
        for place in placements(f"gpu-{card}", MODEL)
        if place.profile == PROFILE
    ]
    bar = progress.add_task("claims", total=claims) if progress is not None else None
    times: dict[bool, list[float]] = {True: [], False: []}
    free = asyncio.Queue[Placement]()
    for place in offered:
        free.put_nowait(place)
    numbers = iter(range(claims))
    try:
        async with (
            ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as cluster,
            AgentPool({}) as pool,
        ):
            await install(cluster)
            hardware = SimulatedHardware(folder, [MODEL] * CARDS)
            async with chaos_node(cluster, folder, hardware, pool) as node:
                agent = node.start()
                await node.wait_published()
                await node.wait_serving()
                process = psutil.Process(await agent.started)
                # Watches of a definition that was just made lag for seconds; that is the API server's doing.
                await _one(node, claims, offered[0], cold=False)

                async def work() -> None:
                    for number in numbers:
                        place = await free.get()
                        cold = bool(number % 2)
                        times[cold].append(await _one(node, number, place, cold=cold))
                        free.put_nowait(place)
                        if progress is not None and bar is not None:
                            progress.advance(bar)

                before, began = process.cpu_times(), time.monotonic()
                await asyncio.gather(*(work() for _ in range(together)))
                seconds, after = time.monotonic() - began, process.cpu_times()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cpu = after.user + after.system - before.user - before.system
    return Figures(
        claims,
        *_percentiles(times[False]),
        *_percentiles(times[True]),
        cpu_per_claim=1000 * cpu / claims,
        claims_per_second=claims / seconds,
    )


async def _one(node: ChaosNode, number: int, place: Placement, *, cold: bool) -> float:
    """Take one claim from creation to release; return the milliseconds of its prepare call."""
    claim = await node.create_claim(f"b{number}", place.device)
    if cold:
        creating = asyncio.create_task(node.create_partition(place, claim))
        taken = await _prepare(node, claim)
        await creating
    else:
        await node.create_partition(place, claim)
        await eventually(lambda: _cut(node, place))
        taken = await _prepare(node, claim)
    await node.unprepare(claim)
    await node.delete_claim(claim)
    await node.delete_partition(place)
    await node.wait_removed(place)
    return taken


async def _prepare(node: ChaosNode, claim: Json) -> float:
    meta = claim["metadata"]
    plugin = await node.connected_plugin()
    began = time.perf_counter()
    answer = (await plugin.prepare([ClaimKey(meta["namespace"], meta["name"], meta["uid"])]))[meta["uid"]]
    taken = time.perf_counter() - began
    if isinstance(answer, PluginError):
        raise answer
    return 1000 * taken


async def _cut(node: ChaosNode, place: Placement) -> bool:
    found = await node.partitions()
    return any(p["spec"]["device"] == place.device and p.get("status", {}).get("uuid") for p in found)


def _percentiles(times: Sequence[float]) -> tuple[float, float]:
    marks = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else [*times] * 99
    return marks[49], marks[98]


def main(
    claims: Annotated[int, typer.Option(min=2, help="How many claims.")] = 100,
    together: Annotated[int, typer.Option(min=1, max=56, help="How many at a time.")] = 4,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Measure the agent's own time per prepare on a simulated node with eight GPUs."""
    console = Console(stderr=True)
    binaries = asyncio.run(provide(DEFAULT, [ETCD, APISERVER, "kubectl"], console=console))
    with Progress(console=console, disable=not console.is_terminal) as progress:
        figures = asyncio.run(measure(claims, together, binaries, progress))
    if json is not None:
        json.write_bytes(orjson.dumps(asdict(figures), option=orjson.OPT_INDENT_2))
    print(
        f"claims={figures.claims} together={together}"
        f" ready_p50={figures.ready_p50:.1f}ms ready_p99={figures.ready_p99:.1f}ms"
        f" cold_p50={figures.cold_p50:.1f}ms cold_p99={figures.cold_p99:.1f}ms"
        f" cpu_per_claim={figures.cpu_per_claim:.1f}ms claims_per_s={figures.claims_per_second:.1f}"
    )


if __name__ == "__main__":
    run_command(main)
