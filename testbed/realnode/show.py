"""Show: one real node, a pod for each kind of partition, cold and warm, and a clean machine after it.

In: a console. Out: what the containers saw, how long they took, and whether everything was as expected.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.table import Table

from testbed.binaries import provide
from testbed.errors import TestbedError
from testbed.realnode.bed import RealBed
from testbed.realnode.probe import unfit
from testbed.realnode.workload import MANAGED, Running, Wish, Workload, mig, vnpu
from testbed.versions import CONTROL_PLANE, NODE

WISHES = (mig("1g.10gb"), vnpu("vir05_1c_8g"))
_OWN = ("APPORTION_", "NVIDIA_", "ASCEND_")


class Show:
    """One run."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def run(self) -> bool:
        """Run it; False, with the reason printed, when no real node can run here."""
        reason = await unfit()
        if reason:
            self._console.print(f"[yellow]no real node:[/] {reason}", highlight=False)
            return False
        binaries = await provide(names=[*CONTROL_PLANE, *NODE], console=Console(stderr=True))
        bed = RealBed(binaries=binaries)
        async with self._step("control plane, node, operator and agent"):
            await bed.__aenter__()
        try:
            await self._on(bed)
        finally:
            async with self._step("end everything"):
                await bed.__aexit__(None, None, None)
        return True

    async def _on(self, bed: RealBed) -> None:
        namespace = await bed.cluster.make_namespace("team", MANAGED)
        work = Workload(bed.cluster, bed.node, namespace)
        times = Table("pod", "device", "made to allocated", "allocated to running")
        cold: dict[str, Running] = {}
        for wish in WISHES:
            async with self._step(f"{wish.title}, cold: run, delete, look for remains"):
                cold[wish.name] = await work.run(f"{wish.name}-cold", wish)
                await work.delete(f"{wish.name}-cold")
                await bed.nothing_left(warm=True)
            self._tell(wish, cold[wish.name])
        for wish in WISHES:
            async with self._step(f"{wish.title}, warm: run"):
                warm = await work.run(f"{wish.name}-warm", wish)
            for state, seen in (("cold", cold[wish.name]), ("warm", warm)):
                times.add_row(
                    f"{wish.name}-{state}", seen.device, f"{seen.allocated:.2f} s", f"{seen.started:.2f} s"
                )
        self._console.print(times)
        async with self._step("keep nothing warm, delete: nothing at all is left"):
            await bed.keep_nothing_warm()
            for wish in WISHES:
                await work.delete(f"{wish.name}-warm")
            await bed.nothing_left(warm=False)

    def _tell(self, wish: Wish, seen: Running) -> None:
        if seen.environment.get("APPORTION_PART") != seen.device:
            raise TestbedError(
                f"the container of {wish.title} was not told of {seen.device}: {seen.environment}"
            )
        self._console.print(f"  what the container of {wish.title} saw:", highlight=False)
        for name, value in sorted(seen.environment.items()):
            if name.startswith(_OWN):
                self._console.print(f"    {name}={value}", highlight=False)
        for path, number in sorted(seen.devices.items()):
            if not number.startswith(("1:", "5:")):  # what every container has
                self._console.print(f"    {path} ({number})", highlight=False)

    @asynccontextmanager
    async def _step(self, title: str) -> AsyncIterator[None]:
        began = time.monotonic()
        yield
        self._console.print(f"[green]✔[/] {title}  {time.monotonic() - began:.1f} s", highlight=False)
