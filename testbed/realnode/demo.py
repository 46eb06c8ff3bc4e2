"""The demo of a real node: a pod for each kind of partition, cold and warm, and nothing left after it.

In: a console. Out: what the containers saw and how long they took, printed; whether everything was as expected.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console
from rich.table import Table

from testbed.binaries import provide
from testbed.errors import TestbedError
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.probe import unsupported_reason
from testbed.realnode.trials import TRIALS
from testbed.realnode.workload import MANAGED, DeviceRequest, RunningPod, Workload, mig, vnpu
from testbed.versions import CONTROL_PLANE, NODE

REQUESTS = (mig("1g.10gb"), vnpu("vir05_1c_8g"))
_OWN = ("APPORTION_", "NVIDIA_", "ASCEND_")


class RealNodeDemo:
    """One run of the demo."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def run(self) -> bool:
        """Run it; False, with the reason printed, when no real node can run here."""
        reason = await unsupported_reason()
        if reason:
            self._console.print(f"[yellow]no real node:[/] {reason}", highlight=False)
            return False
        binaries = await provide(names=[*CONTROL_PLANE, *NODE], console=Console(stderr=True))
        installation = RealNodeInstallation(gpus=("H100-80GB",) * 2, binaries=binaries, small_disk=True)
        async with self._step("control plane, node, operator and agent"):
            await installation.__aenter__()
        try:
            await self._run_pods(installation)
        finally:
            async with self._step("end everything"):
                await installation.__aexit__(None, None, None)
        return True

    async def _run_pods(self, installation: RealNodeInstallation) -> None:
        namespace = await installation.cluster.make_namespace("team", MANAGED)
        work = Workload(installation.cluster, installation.node, namespace)
        times = Table("pod", "device", "made to allocated", "allocated to running")
        cold: dict[str, RunningPod] = {}
        for wanted in REQUESTS:
            async with self._step(f"{wanted.title}, cold: run, delete, look for remains"):
                cold[wanted.name] = await work.run(f"{wanted.name}-cold", wanted)
                await work.delete(f"{wanted.name}-cold")
                await installation.nothing_left(warm=True)
            self._print(wanted, cold[wanted.name])
        for wanted in REQUESTS:
            async with self._step(f"{wanted.title}, warm: run"):
                warm = await work.run(f"{wanted.name}-warm", wanted)
            for state, seen in (("cold", cold[wanted.name]), ("warm", warm)):
                times.add_row(
                    f"{wanted.name}-{state}", seen.device, f"{seen.allocated:.2f} s", f"{seen.started:.2f} s"
                )
        self._console.print(times)
        for wanted in REQUESTS:
            # Trials ask for whole GPUs, too.
            await work.delete(f"{wanted.name}-warm")
        for title, trial in TRIALS.items():
            async with self._step(f"{title}: pods run all the same, each with its own device"):
                await trial(installation, work)
        async with self._step("keep nothing warm: nothing at all is left"):
            await installation.keep_nothing_warm()
            await installation.nothing_left(warm=False)

    def _print(self, wanted: DeviceRequest, seen: RunningPod) -> None:
        if seen.environment.get("APPORTION_PART") != seen.device:
            raise TestbedError(
                f"the container of {wanted.title} was not given {seen.device}: {seen.environment}"
            )
        self._console.print(f"  what the container of {wanted.title} saw:", highlight=False)
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
