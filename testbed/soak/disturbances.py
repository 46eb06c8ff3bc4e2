"""What is done to an installation under load: processes killed, stopped and cut off, servers restarted, faults between.

In: an installation behind faulty proxies, random choices. Out: how often each was done. At the end everything runs and is whole again.

Operators are left alone for the last part of each period. Memory is judged by processes that live long: one agent is never killed, and one operator not in the second half.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from testbed.checker import Checker
from testbed.components import APISERVER, CONTROLLER_MANAGER, SCHEDULER
from testbed.controlplane import ControlPlane
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from testbed.installation import Installation
from testbed.soak.churn import Churn
from testbed.soak.heldwrites import HeldWrites
from testbed.supervised import Supervised

CALM: Final = 0.4
"""Share of a period at its end in which no operator is disturbed."""
PERIOD_SECONDS: Final = 1200.0
"""Length of a period; a shorter run is one."""
_PAUSE_SECONDS: Final = (2.0, 8.0)
_OPERATOR_PAUSE_SECONDS: Final = (6.0, 16.0)
"""Time between two disturbances of operators: a lease has run out after the first one, and somebody acts before the next."""
_AWAY_SECONDS: Final = (10.0, 20.0)
"""How long an operator sleeps or is cut off: longer than its lease lasts."""
_NO_AGENT_SECONDS: Final = (10.0, 45.0)
"""How long a node has no agent: longer than kubelet keeps the slices of a plugin that is gone, sometimes."""
_T = TypeVar("_T")
_OURS: Final = "/(resourceclaims|partitions)/"


def mortal(operators: Sequence[_T], over: float) -> Sequence[_T]:
    """Return the operators that may be killed when this share of a run is over: in the second half all but the last one."""
    return operators[:-1] if over >= 0.5 else operators


def rules() -> Iterator[Rule]:
    """Yield what goes wrong while the API server is faulty, about once in ten writes and reads."""
    for fault in (Fault.LOSE_ANSWER, Fault.FAIL, Fault.GARBLE, Fault.DROP_REQUEST):
        yield Rule(fault, "PATCH", _OURS, chance=0.08)
    yield Rule(Fault.HOLD_REQUEST, "PATCH", _OURS, chance=0.2, seconds=7)
    yield Rule(Fault.HOLD_ANSWER, "PATCH", _OURS, chance=0.1, seconds=10)
    yield Rule(Fault.HOLD_ANSWER, "GET", chance=0.05, seconds=2)
    yield Rule(Fault.THROTTLE, chance=0.05, seconds=1)
    yield Rule(Fault.EXPIRE, "GET", "[?&](watch|continue)=", chance=0.2)
    yield Rule(Fault.END, chance=0.1)
    yield Rule(Fault.STALE, "GET", _OURS, chance=0.1)
    yield Rule(Fault.CUT, chance=0.5)
    yield Rule(Fault.REPLAY, chance=0.7)


class Disturbances:
    """`run(seconds)` disturbs for so long; `counts` says what was done how often."""

    def __init__(
        self,
        cluster: ControlPlane,
        installation: Installation,
        checker: Checker,
        proxies: list[FaultyProxy],
        churn: Churn,
        choose: random.Random,
    ) -> None:
        """`proxies` are those of the operators in their order, then that of the agents."""
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._installation = installation
        self._checker = checker
        self._proxies = proxies
        self._choose = choose
        self._began, self._seconds = 0.0, 0.0
        self._is_faulty = False
        self._aimed: dict[FaultyProxy, Sequence[Rule]] = {}
        self._held = HeldWrites(proxies[: len(installation.operators)], self._aim, churn)
        self._kept, *self._victims = sorted(installation.agents)
        self._to_operators: dict[Callable[[], Awaitable[None]], int] = {
            self._kill_in_a_write: 4, self._kill_operator: 2, self._kill_all: 1, self._sleep: 2, self._cut_off: 2,
            self._lose_lease: 2, self._give_up: 2,
        }  # fmt: skip
        self._to_others: dict[Callable[[], Awaitable[None]], int] = {
            self._kill_agent: 3, self._away: 2, self._restart_server: 2, self._restart_client: 1
        }  # fmt: skip

    @property
    def faults(self) -> Counter[Fault]:
        """How often each fault of the proxies happened."""
        return sum((proxy.faults for proxy in self._proxies), Counter())

    async def run(self, seconds: float) -> None:
        """Disturb for so many seconds; everything runs again when this returns."""
        self._began, self._seconds = time.monotonic(), seconds
        end = self._began + seconds
        period = min(seconds, PERIOD_SECONDS)
        faulty = asyncio.create_task(self._faulty())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._disturb(self._to_others, end, _PAUSE_SECONDS))
                group.create_task(self._disturb_operators(end, period))
        finally:
            faulty.cancel()
            with suppress(asyncio.CancelledError):
                await faulty
            self._mend()

    async def _disturb_operators(self, end: float, period: float) -> None:
        """Disturb operators at random, first in the two ways by which a device is given twice, if ever."""
        while (now := time.monotonic()) < end:
            calm = now + period
            for disturb in self._choose.sample((self._lose_lease, self._give_up), 2):
                await disturb()
                await asyncio.sleep(self._choose.uniform(*_OPERATOR_PAUSE_SECONDS))
            await self._disturb(self._to_operators, min(end, calm - period * CALM), _OPERATOR_PAUSE_SECONDS)
            await asyncio.sleep(max(min(calm, end) - time.monotonic(), 0))

    async def _disturb(
        self,
        disturbances: Mapping[Callable[[], Awaitable[None]], int],
        end: float,
        pause: tuple[float, float],
    ) -> None:
        while time.monotonic() < end:
            await self._choose.choices(list(disturbances), list(disturbances.values()))[0]()
            await asyncio.sleep(self._choose.uniform(*pause))

    def _mend(self) -> None:
        self._checker.on_allocation = lambda _: None
        self._aimed.clear()
        self._set_rules(faulty=False)
        for proxy in self._proxies:
            proxy.heal()
            proxy.let_go()

    async def _faulty(self) -> None:
        """Let all proxies be faulty now and then."""
        while True:
            await asyncio.sleep(self._choose.uniform(5, 20))
            self._set_rules(faulty=True)
            await asyncio.sleep(self._choose.uniform(15, 30))
            self._set_rules(faulty=False)

    def _set_rules(self, *, faulty: bool) -> None:
        self._is_faulty = faulty
        for proxy in self._proxies:
            proxy.rules = [*self._aimed.get(proxy, ()), *(rules() if faulty else ())]

    def _aim(self, proxy: FaultyProxy, first: Sequence[Rule]) -> None:
        """Set the rules that go before those of a faulty time."""
        self._aimed[proxy] = first
        self._set_rules(faulty=self._is_faulty)

    # Operators

    def _mortal(self) -> Sequence[Supervised]:
        return mortal(self._installation.operators, (time.monotonic() - self._began) / self._seconds)

    async def _kill_in_a_write(self) -> None:
        """SIGKILL the operators at the moment at which the server has taken an allocation: the leader has not heard of it."""
        struck = asyncio.Event()

        def strike(_: int) -> None:
            self._checker.on_allocation = lambda _: None
            for operator in self._mortal():
                operator.kill()
            struck.set()

        self._checker.on_allocation = strike
        with suppress(TimeoutError):
            async with asyncio.timeout(self._choose.uniform(*_AWAY_SECONDS)):
                await struck.wait()
        self._checker.on_allocation = lambda _: None
        if struck.is_set():
            self.counts["operators killed in a write"] += 1

    async def _kill_operator(self) -> None:
        self._choose.choice(self._mortal()).kill()
        self.counts["operator killed"] += 1

    async def _kill_all(self) -> None:
        for operator in self._mortal():
            operator.kill()
        self.counts["operators killed at once"] += 1

    async def _sleep(self) -> None:
        """Stop an operator for longer than its lease lasts, and wake it."""
        operator = self._choose.choice(self._installation.operators)
        if await self._asleep(operator):
            self.counts["operator stopped"] += 1

    async def _asleep(self, operator: Supervised) -> bool:
        pid = operator.pid
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(self._choose.uniform(*_AWAY_SECONDS))
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    async def _lose_lease(self) -> None:
        if await self._held.lease_lost():
            self.counts["lease lost, writes held up"] += 1

    async def _give_up(self) -> None:
        if await self._held.given_up():
            self.counts["writes held up and given up"] += 1

    async def _cut_off(self) -> None:
        """Cut an operator off from the API server for longer than its lease lasts."""
        proxy = self._proxies[self._choose.randrange(len(self._installation.operators))]
        proxy.part()
        try:
            await asyncio.sleep(self._choose.uniform(*_AWAY_SECONDS))
        finally:
            proxy.heal()
        self.counts["operator cut off"] += 1

    # The others

    async def _kill_agent(self) -> None:
        self._installation.agents[self._choose.choice(self._victims)].kill()
        self.counts["agent killed"] += 1

    async def _away(self) -> None:
        """Stop an agent for a while: what its node prepares, and cuts, has to wait."""
        agent = self._installation.agents[self._choose.choice(self._victims)]
        await agent.stop()
        try:
            await asyncio.sleep(self._choose.uniform(*_NO_AGENT_SECONDS))
        finally:
            agent.start()
        self.counts["agent away"] += 1

    async def _restart_server(self) -> None:
        await self._restart(APISERVER)
        self.counts["API server restarted"] += 1

    async def _restart_client(self) -> None:
        name = self._choose.choice((CONTROLLER_MANAGER, SCHEDULER))
        await self._restart(name)
        self.counts[f"{name} restarted"] += 1

    async def _restart(self, component: str) -> None:
        await self._cluster.stop_component(component)
        try:
            await asyncio.sleep(self._choose.uniform(0.0, 3.0))
        finally:
            await self._cluster.start_component(component)
