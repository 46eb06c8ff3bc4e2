"""Runs the demo: control plane, installation, examples, cleanup.

In: a console, a Kubernetes version. Out: whether every example reached its expected end and nothing is left.
"""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from testbed.appliedexamples import AppliedExamples
from testbed.binaries import Binaries, provide
from testbed.controlplane import ControlPlane
from testbed.demo.display import Step, render
from testbed.demo.nodes import DEMO_MANIFESTS, demo_nodes
from testbed.example import Example, View
from testbed.installation import REPOSITORY, Installation

NAMESPACE = "apportion-examples"
EXAMPLES = REPOSITORY / "examples"
_PATIENCE_SECONDS = 90.0
_LOOK_SECONDS = 0.25


class Demo:
    """One run of the demo."""

    def __init__(self, console: Console, *, version: str, keep: bool) -> None:
        self._console = console
        self._version = version
        self._keep = keep
        self._steps: list[Step] = []
        self._view: View | None = None
        self._left: dict[str, list[str]] = {}
        self._examples = read_examples()
        self._live: Live | None = None

    async def run(self) -> bool:
        """Run it; Returns True when every example reached its expected end and everything was cleaned up."""
        binaries = await provide(self._version, console=self._console)
        if not self._console.is_terminal:
            return await self._run_with(binaries)
        self._live = Live(console=self._console, refresh_per_second=4)
        with self._live:
            return await self._run_with(binaries)

    async def _run_with(self, binaries: Binaries) -> bool:
        async with self._step("control plane"):
            cluster = ControlPlane(version=self._version, binaries=binaries)
            await cluster.start()
        try:
            return await self._run_examples(cluster, binaries)
        finally:
            async with self._step("stop the control plane"):
                await cluster.stop()

    async def _run_examples(self, cluster: ControlPlane, binaries: Binaries) -> bool:
        nodes = demo_nodes()
        installation = Installation(cluster, nodes, manifests=DEMO_MANIFESTS)
        async with self._step(f"install, {len(nodes)} nodes, operator and agents"):
            await installation.__aenter__()
        try:
            applied = AppliedExamples(installation, self._examples, NAMESPACE)
            async with self._step(f"apply {len(self._examples)} examples"):
                await cluster.kubectl("apply", "-f", str(EXAMPLES / "namespace.yaml"))
                await applied.apply()
            async with self._step("every example reaches its expected end"):
                reached = await self._reached(applied)
            if self._live is None:
                self._console.print(render(self._view, [], self._left, self._examples))
            if self._keep and reached:
                await self._wait_until_interrupted(cluster, binaries)
            async with self._step("clean up"):
                clean = await self._cleaned(applied)
        finally:
            await installation.__aexit__(None, None, None)
        return reached and clean

    async def _reached(self, applied: AppliedExamples) -> bool:
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            self._view = await applied.view()
            self._left = {example.name: example.differences(self._view) for example in self._examples}
            self._draw()
            if not any(self._left.values()):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    async def _cleaned(self, applied: AppliedExamples) -> bool:
        """Delete the examples; warm partitions stay until their nodes are deleted."""
        await applied.delete()
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            if not await applied.left():
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    async def _wait_until_interrupted(self, cluster: ControlPlane, binaries: Binaries) -> None:
        folders = f"{Path(sys.executable).parent}:{binaries['kubectl'].parent}"
        # Not wrapped: the lines are there to be copied.
        self._console.print(
            "\nThe cluster keeps running. In another shell, for kubectl and apportion:\n\n"
            f"  export KUBECONFIG={cluster.kubeconfig}\n  export PATH={folders}:$PATH\n",
            soft_wrap=True,
            highlight=False,
        )
        interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
        # A shell starts what is in its background with SIGINT ignored; kill ends the demo there.
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, interrupted.set)
        self._console.print("Ctrl-C ends it and cleans up.")
        await interrupted.wait()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)

    @asynccontextmanager
    async def _step(self, title: str) -> AsyncIterator[None]:
        began = time.monotonic()
        self._steps.append(Step(title))
        self._draw()
        yield
        self._steps[-1] = Step(title, time.monotonic() - began)
        self._draw()
        if self._live is None:
            self._console.print(f"[green]✔[/] {title}  {time.monotonic() - began:.1f} s", highlight=False)

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(render(self._view, self._steps, self._left, self._examples))


def read_examples(folder: Path = EXAMPLES) -> list[Example]:
    """Read every example file."""
    return [Example.read(path) for path in sorted(folder.glob("*.yaml")) if path.stem != "namespace"]
