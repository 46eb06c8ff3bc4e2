"""Protections: the finalizer of claims that have devices, written again where somebody took it off.

In: claims of ours with devices and without the finalizer that we write with these. Out: writes in the background, one at a time for each of them. `kubectl
replace` with a manifest takes all finalizers off a claim, or leaves those of the manifest, and leaves its allocation: a pod is not started by a claim that could be
gone at once, or that controller-manager, which looks for its own finalizer, would never deallocate.
"""

from collections.abc import Callable, Collection, Coroutine
from typing import Any

import structlog

from apportion.cluster.recorder import Recorder
from apportion.dra.claim import Claim
from apportion.errors import ApiError, Missing, NotLeading, Overtaken, Unanswered
from apportion.scheduling.events import events
from apportion.scheduling.writing.pauses import Pauses
from apportion.scheduling.writing.writer import Writer

_log = structlog.get_logger()
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds after a write, in which the watch shows what came of it; twice as many each time that the finalizer is missing once more."""


class Protections:
    """Writes finalizers again."""

    def __init__(
        self,
        writer: Writer,
        recorder: Recorder,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        clock: Callable[[], float],
    ) -> None:
        """`spawn` has something done in the background."""
        self._writer = writer
        self._recorder = recorder
        self._spawn = spawn
        self._writing: set[str] = set()
        """Claims (UIDs) whose finalizer is being written."""
        self._pauses = Pauses(clock, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        """Of claims (UIDs) after each write."""

    def begin(self, unprotected: Collection[Claim]) -> None:
        """Have the finalizers of these claims written; not of one that is in a pause."""
        for claim in unprotected:
            if claim.uid not in self._writing and claim.uid not in self._pauses:
                self._writing.add(claim.uid)
                self._spawn(self._protect(claim))

    async def _protect(self, claim: Claim) -> None:
        try:
            await self._writer.protect(claim)
        except (ApiError, NotLeading) as error:
            _log.info("claim.not_protected", claim=claim.key, error=str(error))
            if isinstance(error, ApiError) and not isinstance(error, Overtaken | Missing | Unanswered):
                events.write_failed(
                    self._recorder, claim, error, "its finalizer, without which no pod starts,"
                )
        else:
            _log.info("claim.protected", claim=claim.key)
        finally:
            self._pauses.begin(claim.uid)
            self._writing.discard(claim.uid)
