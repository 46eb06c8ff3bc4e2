"""GateRemovals: the removal of our gate from pods, as often as it takes.

In: pods whose gate can be removed. Out: writes in the background, one at a time for each pod. A removal that fails is tried anew by a later pass, after a
pause that grows, and an Event says why it goes on failing: a webhook or a policy may refuse it for ever. One without an answer may come yet: what
the pod has is kept until that is known, or this replica leads no more.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import structlog

from apportion import metrics
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.errors import ApiError, NotLeading, Unanswered, Unreachable
from apportion.scheduling.events import events
from apportion.scheduling.room.noderoom import promised_node
from apportion.scheduling.writing.pauses import Pauses
from apportion.scheduling.writing.writer import Writer

_log = structlog.get_logger()
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 30.0
_LASTING = 1.0
"""Seconds of a pause from which on a failure is no passing one, as of a server that restarts or a pod that has lost another gate meanwhile."""

_TEST_FAILED = 422
"""How the API server answers a JSON patch whose `test` does not hold: the pod's gates are not those that the watch has shown."""


class GateRemovals:
    """Pods (UIDs) whose gate is being removed, or was removed and is still observed, or may go yet."""

    def __init__(
        self,
        snapshot: Snapshot,
        writer: Writer,
        recorder: Recorder,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """`spawn` has something done in the background; `wake` wakes the cycle when a pause has ended."""
        self._snapshot = snapshot
        self._writer = writer
        self._recorder = recorder
        self._spawn = spawn
        self._wake = wake
        self._open: set[str] = set()
        self._unanswered: dict[str, tuple[Pod, str]] = {}
        """Those whose last try was not answered, with the rank table that they asked for."""
        self._refused: set[str] = set()
        self._pauses = Pauses(clock, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)

    def __contains__(self, pod: str) -> bool:
        return pod in self._open

    @property
    def unanswered(self) -> bool:
        """Whether a gate may go yet though nothing is under way; any thread may ask."""
        return bool(self._unanswered)

    @property
    def refused(self) -> frozenset[str]:
        """Return the pods (UIDs) whose gate the API server goes on refusing to have removed."""
        return frozenset(self._refused)

    def begin_anew(self) -> None:
        """Forget what was decided in a former term: another replica may have given the devices of these pods to others."""
        self._open.clear()
        self._unanswered.clear()
        self._refused.clear()

    def begin(
        self,
        pods: Iterable[Pod],
        rank_tables: Callable[[Sequence[Pod]], Mapping[str, str]],
        *,
        keeps: Callable[[Pod], bool],
    ) -> None:
        """Remove the gates of these pods, and of those whose removal was not answered, but of those in a pause and those of which `keeps` says so.

        `rank_tables` returns what some of them find in an annotation, by UID.
        """
        gated = self._snapshot.pod_index.gated
        self._open &= gated
        self._refused &= gated
        self._unanswered = {uid: each for uid, each in self._unanswered.items() if uid in gated}
        due = [pod for pod in pods if pod.uid not in self._open and not self._waits(pod, keeps)]
        tables = rank_tables(due)
        tries = [(pod, tables.get(pod.uid, "")) for pod in due]
        tries += [each for each in self._unanswered.values() if not self._waits(each[0], keeps)]
        for pod, table in tries:
            self._unanswered.pop(pod.uid, None)
            self._open.add(pod.uid)
            self._spawn(self._remove(pod, table))

    def _waits(self, pod: Pod, keeps: Callable[[Pod], bool]) -> bool:
        return pod.uid in self._pauses or keeps(pod)

    async def _remove(self, pod: Pod, rank_table: str) -> None:
        try:
            await self._try(pod, rank_table)
        except (ApiError, NotLeading) as error:
            pause = self._pauses.begin(pod.uid)
            asyncio.get_running_loop().call_later(pause, self._wake)
            _log.info("pod.not_ungated", pod=pod.key, error=str(error), seconds=pause)
            if isinstance(error, Unanswered):
                self._unanswered[pod.uid] = pod, rank_table
            else:
                self._open.discard(pod.uid)
            if pause >= _LASTING and isinstance(error, ApiError):
                events.gate_not_removed(self._recorder, pod, error)
                if not isinstance(error, Unreachable):
                    self._refused.add(pod.uid)
        else:
            self._refused.discard(pod.uid)
            self._pauses.end(pod.uid)
            metrics.UNGATED.inc()
            _log.info("pod.ungated", pod=pod.key)

    async def _try(self, pod: Pod, rank_table: str) -> None:
        try:
            await self._writer.ungate(pod, rank_table, promised_node(pod, self._snapshot) or "")
        except ApiError as error:
            # A try that was not answered may have removed it, and the watch is late.
            if error.status != _TEST_FAILED or await self._writer.has_gate(pod):
                raise
