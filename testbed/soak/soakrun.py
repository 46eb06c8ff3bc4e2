"""A soak: the whole product under random load while everything around it fails.

In: seconds, a seed, the programs of a control plane. Out: a `SoakResult`; `show` is called each second with what is known so far; the logs, where it found something.

Two operators and four agents run behind faulty proxies on a real control plane. The checker shares no code with the product.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from testbed import taintrules
from testbed.binaries import Binaries
from testbed.checker import Checker
from testbed.controlplane import ControlPlane
from testbed.faultyproxy import FaultyProxy
from testbed.installation import Installation
from testbed.soak import workload
from testbed.soak.administration import Administration
from testbed.soak.churn import Churn
from testbed.soak.disturbances import Disturbances
from testbed.soak.ending import complaints, end
from testbed.soak.keeping import keep
from testbed.soak.observer import LOOK_SECONDS, Observer
from testbed.soak.result import SoakResult

EVICTING_MANIFESTS: Final = Path(__file__).parent / "manifests"
"""The product with the right to evict pods."""
_OPERATORS: Final = 2
_STOP_SECONDS: Final = 1.5
"""How long containers take to end."""
_LEASE_SECONDS: Final = 9
"""How long nobody leads after a leader that was killed."""

Show = Callable[[SoakResult], None]


class SoakRun:
    """`await SoakRun(binaries, seconds=..., seed=...).run()`."""

    def __init__(
        self,
        binaries: Binaries,
        *,
        seconds: float,
        seed: int,
        version: str,
        show: Show = lambda _: None,
        logs: Path | None = None,
        administered: bool = False,
    ) -> None:
        """`logs`: where all logs are copied to when something is not as it must be."""
        self._logs = logs
        self._administered = administered
        self._binaries = binaries
        self._seconds = seconds
        self._version = version
        self._show = show
        self.result = SoakResult(seed)

    async def run(self) -> SoakResult:
        """Run, and return what was found; never raises because of a violation."""
        seed = self.result.seed
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            version, flags = self._version, taintrules.flags(self._version)
            cluster = await enter(ControlPlane(binaries=self._binaries, version=version, flags=flags))
            proxies = [
                await enter(FaultyProxy(cluster.kubeconfig, seed=seed + number))
                for number in range(_OPERATORS + 1)
            ]
            installation = await enter(
                Installation(
                    cluster,
                    workload.nodes(),
                    operators=_OPERATORS,
                    manifests=EVICTING_MANIFESTS,
                    operator_options=("--lease-duration", f"{_LEASE_SECONDS}"),
                    kubelet_options={"stop_seconds": _STOP_SECONDS},
                    proxies=proxies[:_OPERATORS],
                    agent_proxy=proxies[_OPERATORS],
                )
            )
            checker = await enter(Checker(installation, unled=_LEASE_SECONDS))
            churn = Churn(cluster, _random(seed), preempting=self._administered)
            self._administration = Administration(cluster, installation, checker, churn, _random(seed + 2))
            disturbances = Disturbances(cluster, installation, checker, proxies, churn, _random(seed + 1))
            observer = Observer(installation, checker)
            await churn.prepare()
            async with _meanwhile(self._observe(observer, checker, churn, disturbances)):
                await self._load(churn, disturbances)
                self.result.idle = observer.idle
                began = time.monotonic()
                self.result.left = await end(installation, checker, churn)
                self.result.settled = time.monotonic() - began
            observer.look()
            self._read(observer, checker, churn, disturbances)
            self.result.memory, self.result.leaks = observer.growths(), observer.leaks()
            self.result.complaints = complaints(installation)
            if self._logs is not None and (problems := self.result.problems):
                keep(cluster.folder, self._logs, problems, checker.violations)
        return self.result

    async def _load(self, churn: Churn, disturbances: Disturbances) -> None:
        began = time.monotonic()
        async with _meanwhile(churn.run()):
            if self._administered:
                async with _meanwhile(self._administration.run()):
                    await disturbances.run(self._seconds)
                await self._administration.undo()
            else:
                await disturbances.run(self._seconds)
        self.result.loaded = time.monotonic() - began

    async def _observe(
        self, observer: Observer, checker: Checker, churn: Churn, disturbances: Disturbances
    ) -> None:
        while True:
            observer.look()
            self._administration.quotas.look()
            self._read(observer, checker, churn, disturbances)
            self._show(self.result)
            await asyncio.sleep(LOOK_SECONDS)

    def _read(self, observer: Observer, checker: Checker, churn: Churn, disturbances: Disturbances) -> None:
        result = self.result
        result.pods, result.forced = churn.made, churn.forced
        result.served, result.allocations = observer.served, checker.allocations
        result.disturbances = dict(disturbances.counts + self._administration.counts)
        result.faults = {fault.name: count for fault, count in disturbances.faults.items()}
        result.violations = [*observer.violations, *sorted(self._administration.quotas.violations)]


@asynccontextmanager
async def _meanwhile(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something without an end meanwhile; an error of it ends the block, and is raised."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()


def _random(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret, but the same choices for the same seed
