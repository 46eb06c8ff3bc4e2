"""What the demos of a real node have in common: the installation around what they show, and a printed line for each step.

In: a console. Out: whether it could be shown; what is not as expected is raised.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console

from testbed.binaries import Binaries, provide
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.probe import unsupported_reason
from testbed.versions import CONTROL_PLANE, NODE


class NodeDemo(ABC):
    """One run of a demo."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def run(self) -> bool:
        """Run it; False, with the reason printed, when it cannot be shown on this machine. Raises TestbedError for what is not as expected."""
        reason = await unsupported_reason()
        if reason:
            self._console.print(f"[yellow]no real node:[/] {reason}", highlight=False)
            return False
        binaries = await provide(names=[*CONTROL_PLANE, *NODE], console=Console(stderr=True))
        installation = self._installation(binaries)
        async with self._step("control plane, node, operator and agent"):
            await installation.__aenter__()
        try:
            return await self._show(installation)
        finally:
            async with self._step("end everything"):
                await installation.__aexit__(None, None, None)

    @abstractmethod
    def _installation(self, binaries: Binaries) -> RealNodeInstallation:
        """Return what is to be started."""

    @abstractmethod
    async def _show(self, installation: RealNodeInstallation) -> bool:
        """Show it; False, with the reason printed, where the node lacks something."""

    @asynccontextmanager
    async def _step(self, title: str) -> AsyncIterator[None]:
        began = time.monotonic()
        yield
        self._console.print(f"[green]✔[/] {title}  {time.monotonic() - began:.1f} s", highlight=False)
