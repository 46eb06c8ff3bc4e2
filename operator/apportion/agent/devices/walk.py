"""A walk: calls about many cards, from as few threads as answer in time.

In: a call by card. Out: answers, errors, and the cards that have not answered within a deadline. One thread asks card after card,
because a thread for each costs more CPU than the calls do; while a card is slow, another thread goes on with the next.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from apportion.agent.devices.threads import Threads
from apportion.errors import HardwareError

R = TypeVar("R")
_MOMENT: Final = 0.1
"""Seconds that the next card waits for the answer of the one before."""


@dataclass(slots=True)
class _Walker:
    """One thread of a walk."""

    card: str = ""
    """What it asks now."""
    since: float = 0.0
    """When it began to."""


class Walk(Generic[R]):
    """One walk; `run` it once."""

    def __init__(
        self,
        calls: Mapping[str, Callable[[], R]],
        *,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`patience`: seconds after which a card's answer is overdue."""
        self._calls = calls
        self._patience = patience
        self._clock = clock
        self._ahead = deque(calls)
        self.answers: dict[str, R] = {}
        """By card."""
        self.errors: dict[str, HardwareError] = {}
        """What cards were refused with."""
        self.overdue: dict[str, asyncio.Future[Any]] = {}
        """Cards that have not answered, with what is done when their call is back."""

    async def run(self, threads: Threads) -> None:
        """Ask every card; returns when each has answered or is overdue. Errors that are not of the hardware are raised."""
        walkers: dict[asyncio.Future[None], _Walker] = {}
        ahead = len(self._ahead)
        while self._ahead or walkers:
            if self._ahead and len(self._ahead) == ahead:
                walker = _Walker()
                walkers[threads.call(self._go, walker)] = walker
            ahead = len(self._ahead)
            done, out = await asyncio.wait(walkers, timeout=_MOMENT)
            for ended in done:
                ended.result()
            walkers = {each: walkers[each] for each in out}
            if not self._ahead and all(map(self._late, walkers.values())):
                break
        self.overdue = {walker.card: out for out, walker in walkers.items()}

    def _late(self, walker: _Walker) -> bool:
        return self._clock() - walker.since >= self._patience

    def _go(self, walker: _Walker) -> None:
        while True:
            walker.since = self._clock()
            try:
                card = walker.card = self._ahead.popleft()
            except IndexError:
                return
            try:
                self.answers[card] = self._calls[card]()
            except HardwareError as error:
                self.errors[card] = error
