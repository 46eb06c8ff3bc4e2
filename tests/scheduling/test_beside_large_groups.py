"""Beside a large group that is decided, written and let go, or refused, nobody else waits longer than a tenth of a second for it."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest
from structlog.testing import capture_logs

from apportion.api.contract import GATE
from apportion.cluster.debouncer import Debouncer
from apportion.settings import CycleSettings
from tests.observedcluster import request
from tests.scheduling.answering import Answering
from tests.scheduling.podgroups import gang
from tests.scheduling.virtualtime import LoopClock, aside, run

MEMBERS = 128
PER_CALL = 0.9e-6
"""Seconds of a call, six times as long as it takes: so a pass takes as long as with six times as many members."""
SERVICE = 0.0025
"""Seconds of a write."""
WITHIN = 5.0
"""Seconds within which the group is let go."""


class Beside:
    """A cycle that runs, a group, and pods of another namespace, one after the other."""

    def __init__(self, nodes: int, members: int = MEMBERS) -> None:
        """`nodes`: of four devices each."""
        self._members = members
        self.world = gang(0, nodes)
        clock, settings = LoopClock(), CycleSettings()
        self.world.clock = clock
        debouncer = Debouncer(quiet=settings.quiet, longest=settings.longest, clock=clock)
        self.world.debouncer = debouncer
        self.server = Answering(self.world, SERVICE)
        self.cycle = self.world.cycle(self.server, settings, debouncer)
        # By this time, too, no other namespace has written lately: on a slow machine the same work takes longer by the machine's own.
        self.cycle._writes._writer._turns._clock = clock
        self._created: dict[str, float] = {}

    async def waits(self, is_over: Callable[[Answering, float], bool]) -> list[float]:
        """Let pods come until it is over with the group; return for how many seconds each of them had no devices."""
        loop, acting = asyncio.get_running_loop(), asyncio.ensure_future(self.cycle.run())
        await self._comes("first")  # what is computed once is not the group's doing
        self._created.clear()
        with aside():
            gang(self._members, 0, count=1, into=self.world)
        began = loop.time()
        await asyncio.sleep(0.05)
        for number in count():
            await self._comes(f"s{number}")
            if is_over(self.server, loop.time() - began):
                break
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)
        return [self.server.allocated[name] - at for name, at in self._created.items()]

    async def _comes(self, name: str) -> None:
        self.world.claim(name, request("gpu"), namespace="others", creationTimestamp="2026-01-02T00:00:00Z")
        self.world.pod(name, name, gates=(GATE,), namespace="others")
        self._created[name] = asyncio.get_running_loop().time()
        await asyncio.sleep(0.11 + 0.013 * (len(self._created) % 7))


def is_let_go(server: Answering, seconds: float) -> bool:
    """Say whether the group is, so many seconds after it came; raises TimeoutError."""
    if seconds > WITHIN:
        raise TimeoutError
    return sum(name.startswith("g-") for name in server.let_go) == MEMBERS


def is_refused(server: Answering, seconds: float) -> bool:
    """Say whether a group that never fits has been there for a while."""
    assert not any(name.startswith("g-") for name in server.allocated)
    return seconds > 1.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "is_over"), [(MEMBERS // 4 + 20, is_let_go), (MEMBERS // 4 - 1, is_refused)]
)
def test_nobody_waits_long_for_a_large_group(nodes: int, is_over: Callable[[Answering, float], bool]) -> None:
    """Whether it is served, or too large by five devices that single pods take."""

    async def waits(beside: int, members: int, is_over: Callable[[Answering, float], bool]) -> list[float]:
        return await Beside(beside, members).waits(is_over)

    with capture_logs():  # to write them to a terminal takes longer than all else
        # A small one first: what a process computes once is not the group's doing.
        run(waits(9, 4, lambda _, seconds: seconds > 0.5), per_call=PER_CALL)
        found = run(waits(nodes, MEMBERS, is_over), per_call=PER_CALL)

    assert len(found) > 5
    assert max(found) < 0.1, sorted(found)
