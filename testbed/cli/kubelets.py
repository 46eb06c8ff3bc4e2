"""`python -m testbed kubelets`: run the fake kubelets of simulated nodes until SIGTERM; `up --nodes` starts it."""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from testbed.kubelet import FakeKubelet
from testbed.node import NodeShape


def kubelets(
    nodes: Annotated[list[str], typer.Argument(metavar="NAME=KUBECONFIG...", help="Nodes to simulate.")],
    root: Annotated[Path, typer.Option(help="Folder for plugin sockets and CDI files, by node.")],
) -> None:
    """Run the fake kubelets of simulated nodes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(_run(nodes, root))


async def _run(nodes: list[str], root: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for word in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(word, stop.set)
    async with AsyncExitStack() as stack:
        for each in nodes:
            name, _, kubeconfig = each.partition("=")
            await stack.enter_async_context(
                FakeKubelet(NodeShape(name), kubeconfig=Path(kubeconfig), root=root / name)
            )
        await stop.wait()
