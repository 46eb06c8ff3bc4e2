"""`python -m testbed up`: start a control plane, with simulated nodes if wanted, that outlives this shell."""

import asyncio
import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from testbed import state
from testbed.binaries import provide
from testbed.cli import options
from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError
from testbed.nodes import GROUP
from testbed.process import Process
from testbed.readiness import until_ready


def up(
    kubernetes: options.Kubernetes = options.DEFAULT_KUBERNETES,
    nodes: Annotated[int, typer.Option(min=0, help="How many simulated nodes to add.")] = 0,
    name: options.Name = options.DEFAULT_NAME,
) -> None:
    """Start a control plane and print the path of its kubeconfig."""
    asyncio.run(_up(kubernetes, nodes, name))


async def _up(kubernetes: str, nodes: int, name: str) -> None:
    console = Console(stderr=True)
    earlier = state.load(name)
    if earlier is not None:
        if any(saved.adopt().running() for saved in earlier.processes):
            raise TestbedError(
                f"testbed {name!r} runs already; `python -m testbed down --name {name}` ends it"
            )
        await earlier.end()
    found = await provide(kubernetes, console=console)
    cluster = ControlPlane(version=kubernetes, binaries=found, detached=True)
    started: list[Process] = []
    try:
        with console.status(f"starting Kubernetes {kubernetes}"):
            await cluster.start()
            if nodes:
                started.append(await _simulate(cluster, nodes))
        state.save(
            state.SavedTestbed(
                name=name,
                kubernetes=kubernetes,
                folder=str(cluster.folder),
                kubeconfig=str(cluster.kubeconfig),
                nodes=nodes,
                processes=tuple(
                    state.SavedProcess.of(process) for process in (*cluster.processes.values(), *started)
                ),
            )
        )
    except BaseException:
        for process in started:
            await process.stop(1)
        await cluster.stop()
        raise
    await cluster.api.__aexit__(None, None, None)
    console.print(
        f"[green]Kubernetes {kubernetes} is up[/], {nodes} simulated nodes. To use it:", highlight=False
    )
    print(f"export KUBECONFIG={cluster.kubeconfig}")


async def _simulate(cluster: ControlPlane, nodes: int) -> Process:
    """Start the process with every node's fake kubelet, and wait until all nodes are Ready."""
    names = [f"node-{index}" for index in range(nodes)]
    configs = [
        f"{name}={cluster.client_kubeconfig(f'system:node:{name}', ['system:nodes'])}" for name in names
    ]
    process = Process.start(
        GROUP,
        [sys.executable, "-m", "testbed", "kubelets", f"--root={cluster.folder / 'nodes'}", *configs],
        cluster.log_path(GROUP),
        detached=True,
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )

    async def all_ready() -> bool:
        found, _ = await cluster.api.items("/api/v1/nodes")
        return len(found) == nodes and all(node.get("status", {}).get("conditions") for node in found)

    try:
        await until_ready(process, all_ready)
    except BaseException:
        await process.stop(1)
        raise
    return process
