"""UnknownWrites: allocations whose write was not answered, or met a conflict, until none of them can be carried out any more (ADR 13).

In: assumptions whose write may have been carried out, or may be later. Out: claims
that have moved on from the resourceVersion on which the write depends; what the watch
then shows is true, and ends the assumption. The devices stay charged until then. A conflict does not say that the claim
has moved on: a webhook may answer 409, too.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from apportion.cluster.assumedallocations import Assumption
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.errors import ApiError, Missing, NotLeading, Overtaken
from apportion.scheduling.writing.writer import Writer

_log = structlog.get_logger()
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
"""Seconds. The first one lets the watch show a write whose answer alone was lost."""


@dataclass(slots=True)
class _Unknown:
    """One write, and when it is withdrawn next."""

    claim: Claim
    assumption: Assumption
    version: str
    due: float
    pause: float = _FIRST_PAUSE
    asked: bool = False


class UnknownWrites:
    """Unanswered writes by claim UID."""

    def __init__(
        self, snapshot: Snapshot, writer: Writer, *, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """`wake` wakes the cycle when one is due."""
        self._snapshot = snapshot
        self._writer = writer
        self._clock = clock
        self._wake = wake
        self._open: dict[str, _Unknown] = {}

    def __len__(self) -> int:
        """Return how many writes may still be carried out."""
        self._drop_settled()
        return len(self._open)

    @property
    def open(self) -> bool:
        """Whether there are any, including those that the watch has settled since the last look; any thread may ask."""
        return bool(self._open)

    def note(self, claim: Claim, assumption: Assumption, version: str) -> None:
        """Take note of a write that depends on this resourceVersion of the claim and was not answered, or with 409."""
        if self._snapshot.assumed.holds(assumption):
            found = _Unknown(claim, assumption, version, due=self._clock() + _FIRST_PAUSE)
            self._open[claim.uid] = found
            self._call_later(found)

    async def withdraw_due(self) -> None:
        """Withdraw the writes whose time has come."""
        self._drop_settled()
        now = self._clock()
        due = [each for each in self._open.values() if each.due <= now and not each.asked]
        await asyncio.gather(*(self._withdraw(each) for each in due))

    async def withdraw_all(self) -> None:
        """Withdraw all of them, as long as this replica may write."""
        while True:
            self._drop_settled()
            found = list(self._open.values())
            if not all(await asyncio.gather(*(self._withdraw(each) for each in found))) or not self._open:
                return
            await asyncio.sleep(max(each.pause for each in found))

    def _drop_settled(self) -> None:
        """Forget what the watch has settled."""
        holds = self._snapshot.assumed.holds
        self._open = {uid: each for uid, each in self._open.items() if holds(each.assumption)}

    async def _withdraw(self, unknown: _Unknown) -> bool:
        """Let the claim move on; says whether this replica may write."""
        unknown.asked = True
        try:
            await self._move_on(unknown)
            self._close(unknown)
        except NotLeading:
            unknown.due = self._clock()
            return False
        except Missing:
            self._snapshot.forget(unknown.assumption)
        except ApiError as error:
            _log.warning("claim.not_withdrawn", claim=unknown.claim.key, error=str(error))
            unknown.pause = min(unknown.pause * 2, _LONGEST_PAUSE)
            unknown.due = self._clock() + unknown.pause
            self._call_later(unknown)
        finally:
            unknown.asked = False
        return True

    async def _move_on(self, unknown: _Unknown) -> None:
        """Withdraw a write; raises Overtaken where admission has refused that: the claim is as it was."""
        try:
            await self._writer.withdraw(unknown.claim, unknown.version)
        except Overtaken:
            if await self._writer.version(unknown.claim) == unknown.version:
                raise
        else:
            _log.info("claim.withdrawn", claim=unknown.claim.key)

    def _close(self, unknown: _Unknown) -> None:
        """Leave the rest to the watch: the claim has moved on."""
        if self._open.get(unknown.claim.uid) is unknown:
            del self._open[unknown.claim.uid]

    def _call_later(self, unknown: _Unknown) -> None:
        asyncio.get_running_loop().call_later(unknown.pause, self._wake)
