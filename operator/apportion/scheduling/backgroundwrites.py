"""BackgroundWrites: the writes that a pass has decided upon, so that no pass waits for the API server.

In: decisions. Out: written objects, and what follows from success or refusal: an assumption is confirmed or forgotten, a
demand pauses, an Event is recorded.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import structlog

from apportion import metrics
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import ApiError, BrokenInput, Missing, NotLeading, Overtaken
from apportion.scheduling import events
from apportion.scheduling.waiting import WaitingDemand
from apportion.scheduling.writer import Writer

_log = structlog.get_logger()
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 30.0


class BackgroundWrites:
    """Writes under way, at most one of a kind for each object."""

    def __init__(
        self,
        snapshot: Snapshot,
        writer: Writer,
        recorder: Recorder,
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """`wake` wakes the cycle when a pause has ended."""
        self._snapshot = snapshot
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._wake = wake
        self._paused: dict[str, tuple[float, float]] = {}
        """Until when a demand waits after a failed write, and how long the pause was."""
        self._ungating: set[str] = set()
        """Pods whose gate we are removing, or have removed and still observe."""
        self._clearing: set[str] = set()
        self._releasing: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def finished(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def paused(self, demand: str) -> bool:
        """Say whether a demand (its key) waits after a failed write."""
        return self._paused.get(demand, (0.0, 0.0))[0] > self._clock()

    def keep(self, demands: Iterable[str]) -> None:
        """Forget the pauses of all other demands."""
        kept = set(demands)
        self._paused = {key: pause for key, pause in self._paused.items() if key in kept}

    def write(
        self, demand: WaitingDemand, pairs: Sequence[tuple[Claim, Allocation]], *, since: float | None
    ) -> None:
        """Write one decision; `since` is when the demand was first seen, by the clock."""
        self._spawn(self._write(demand, pairs, since))

    def ungate(self, pods: Sequence[Pod]) -> None:
        """Remove the gates of these pods, which are all whose gate can be removed now."""
        self._ungating &= {pod.uid for pod in pods}
        for pod in pods:
            if pod.uid not in self._ungating:
                self._ungating.add(pod.uid)
                self._spawn(self._ungate(pod))

    def ungating(self, pod: str) -> bool:
        """Say whether a pod's gate (UID) is being removed."""
        return pod in self._ungating

    def clear(self, claim: Claim, why: str, reason: str) -> None:
        """Clear an allocation; `why` is for people, `reason` for the metric."""
        if claim.uid not in self._clearing:
            self._clearing.add(claim.uid)
            self._spawn(self._clear(claim, why, reason))

    def release(self, claim: Claim) -> None:
        """Remove our finalizer from a claim that is being deleted."""
        if claim.uid not in self._releasing:
            self._releasing.add(claim.uid)
            self._spawn(self._release(claim))

    async def _write(
        self, demand: WaitingDemand, pairs: Sequence[tuple[Claim, Allocation]], since: float | None
    ) -> None:
        """Write claim by claim; a failed write is forgotten, and the demand tried again after a pause."""
        for claim, allocation in pairs:
            try:
                version = await self._writer.allocate(claim, allocation)
            except (Overtaken, Missing) as error:
                _log.info("claim.overtaken", claim=claim.key, error=str(error))
                self._failed(demand, claim, "overtaken")
            except NotLeading:
                self._failed(demand, claim, "not leading")
            except ApiError as error:
                _log.warning("claim.write_failed", claim=claim.key, error=str(error))
                self._failed(demand, claim, "failed")
                events.write_failed(self._recorder, claim, error)
            else:
                self._snapshot.assumed.written(claim.uid, version)
                metrics.ALLOCATIONS.labels("written").inc()
                if since is not None:
                    metrics.ALLOCATION_SECONDS.observe(self._clock() - since)
                events.allocated(self._recorder, claim, allocation, demand.pods)
                _log.info(
                    "claim.allocated", claim=claim.key, node=allocation.node, devices=len(allocation.results)
                )

    def _failed(self, demand: WaitingDemand, claim: Claim, result: str) -> None:
        metrics.ALLOCATIONS.labels(result).inc()
        _, last = self._paused.get(demand.key, (0.0, 0.0))
        pause = min(last * 2 or _FIRST_PAUSE, _LONGEST_PAUSE)
        self._paused[demand.key] = (self._clock() + pause, pause)
        self._snapshot.forget(claim.uid)
        asyncio.get_running_loop().call_later(pause, self._wake)

    async def _ungate(self, pod: Pod) -> None:
        try:
            await self._writer.ungate(pod)
        except NotLeading:
            self._ungating.discard(pod.uid)
        except ApiError as error:
            _log.info("pod.not_ungated", pod=pod.key, error=str(error))
            await asyncio.sleep(_FIRST_PAUSE)
            self._ungating.discard(pod.uid)
        else:
            metrics.UNGATED.inc()
            _log.info("pod.ungated", pod=pod.key)

    async def _clear(self, claim: Claim, why: str, reason: str) -> None:
        try:
            self._snapshot.clearing(claim.uid)
            if not await self._writer.clear(claim):
                self._snapshot.kept(claim.uid)
            else:
                metrics.GIVE_BACKS.labels(reason).inc()
                events.given_back(self._recorder, claim, why)
                _log.info("claim.given_back", claim=claim.key, why=why)
        except (NotLeading, BrokenInput):
            self._snapshot.kept(claim.uid)
        except ApiError as error:
            self._snapshot.kept(claim.uid)
            _log.info("claim.not_given_back", claim=claim.key, error=str(error))
        finally:
            self._clearing.discard(claim.uid)

    async def _release(self, claim: Claim) -> None:
        try:
            await self._writer.release(claim)
        except (ApiError, NotLeading) as error:
            _log.info("claim.not_released", claim=claim.key, error=str(error))
        finally:
            self._releasing.discard(claim.uid)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("background_write.failed", error=str(task.exception()), exc_info=task.exception())
