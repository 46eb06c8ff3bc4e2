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
from apportion.scheduling import events
from apportion.scheduling.writer import Writer

_log = structlog.get_logger()
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds after a write, in which the watch shows what came of it; twice as many each time that the finalizer is still missing."""


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
        self._clock = clock
        self._writing: set[str] = set()
        """Claims (UIDs) whose finalizer is being written."""
        self._pauses: dict[str, tuple[float, float]] = {}
        """By claim (UID), until when nothing is written after a write, and how long that is."""

    def begin(self, unprotected: Collection[Claim]) -> None:
        """Have the finalizers of these claims written, which are all that lack one; not of one that is in a pause."""
        uids = {claim.uid for claim in unprotected}
        self._pauses = {uid: pause for uid, pause in self._pauses.items() if uid in uids}
        for claim in unprotected:
            until, _ = self._pauses.get(claim.uid, (0.0, 0.0))
            if claim.uid not in self._writing and until <= self._clock():
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
            _, last = self._pauses.get(claim.uid, (0.0, 0.0))
            pause = min(2 * last or _FIRST_PAUSE, _LONGEST_PAUSE)
            self._pauses[claim.uid] = self._clock() + pause, pause
            self._writing.discard(claim.uid)
