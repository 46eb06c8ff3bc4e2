"""`python -m bench.idle`: what the agent of a full node costs while nothing happens.

In: seconds. Out: the agent's CPU time, threads included, and its resident memory. The node has eight GPUs behind the fake
libnvidia-ml.so, each cut into seven MIG devices, each prepared for a claim. etcd and kube-apiserver are real. The fake library answers
from memory; a real driver takes longer, most of it waiting.
"""

import asyncio
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import psutil
import typer
from rich.console import Console

from bench.h100node import CARDS, MODEL, MOST_CUT, PROFILE
from bench.refusals import run_command
from testbed.binaries import Binaries, provide
from testbed.chaos.agentpool import AgentPool
from testbed.chaos.fakehardware import Placement, placements
from testbed.chaos.node import ChaosNode
from testbed.chaos.nodesetup import chaos_node, loader_environment
from testbed.chaos.nvmlhardware import NvmlHardware
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.installation import install
from testbed.versions import DEFAULT

_SETTLE_SECONDS = 25.0
"""Until what follows the last claim is done, and every interval of the agent has passed once."""
_INTERVALS: dict[str, Any] = {"health_interval": 2.0, "held_interval": 10.0}
"""Those of the product; test nodes have shorter ones."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one agent costs."""

    seconds: float
    """How long it was looked at."""
    claims: int
    """Prepared all the while, each with a MIG device of its own."""
    cpu_ms_per_10s: float
    resident_mib: float


async def measure(seconds: float, binaries: Binaries) -> Figures:
    """Cut and prepare everything, wait, and look at the agent for so many seconds."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        hardware = NvmlHardware(folder, models=[MODEL] * CARDS)
        async with (
            ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as cluster,
            AgentPool(loader_environment([hardware])) as pool,
        ):
            await install(cluster)
            async with chaos_node(cluster, folder, hardware, pool) as node:
                agent = node.start(**_INTERVALS)
                await node.wait_published()
                await node.wait_serving()
                process = psutil.Process(await agent.started)
                places = [place for card in range(CARDS) for place in _full(f"gpu-{card}")]
                for number, place in enumerate(places):
                    await _prepared(node, number, place)
                await asyncio.sleep(_SETTLE_SECONDS)
                before = process.cpu_times()
                await asyncio.sleep(seconds)
                after = process.cpu_times()
                resident = process.memory_info().rss
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cpu = after.user + after.system - before.user - before.system
    return Figures(seconds, len(places), 1e4 * cpu / seconds, resident / 2**20)


def _full(card: str) -> list[Placement]:
    """Return as many of the smallest partition as fit on a card."""
    return [place for place in placements(card, MODEL) if place.profile == PROFILE][:MOST_CUT]


async def _prepared(node: ChaosNode, number: int, place: Placement) -> None:
    claim = await node.create_claim(f"b{number}", place.device)
    await node.create_partition(place, claim)
    await node.prepare(claim, place.device, place.card)


def main(
    seconds: Annotated[float, typer.Option(min=10, help="How long to look.")] = 60.0,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Measure an idle agent on a node with eight GPUs of seven MIG devices each."""
    console = Console(stderr=True)
    binaries = asyncio.run(provide(DEFAULT, [ETCD, APISERVER, "kubectl"], console=console))
    with console.status("a full node that does nothing"):
        figures = asyncio.run(measure(seconds, binaries))
    if json is not None:
        json.write_bytes(orjson.dumps(asdict(figures), option=orjson.OPT_INDENT_2))
    print(
        f"seconds={figures.seconds:.0f} claims={figures.claims} cpu_ms_per_10s={figures.cpu_ms_per_10s:.1f}"
        f" resident_mib={figures.resident_mib:.0f}"
    )


if __name__ == "__main__":
    run_command(main)
