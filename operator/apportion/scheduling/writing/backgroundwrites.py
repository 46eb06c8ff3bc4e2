"""BackgroundWrites: the writes that a pass has decided upon, so that no pass waits for the API server.

In: decisions. Out: written objects, and what follows from success or refusal: an assumption is confirmed,
forgotten or, without an answer, kept until it is settled (`UnknownWrites`), a demand pauses, an Event is recorded.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import structlog

from apportion import metrics
from apportion.cluster.assumedallocations import Assumption
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import ApiError, BrokenInput, Missing, NotLeading, Overtaken, Unanswered, Unreachable
from apportion.scheduling.demands.consumers import user_ahead
from apportion.scheduling.demands.extendedresources import Template
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.events import events
from apportion.scheduling.writing.chargedcounters import with_counters
from apportion.scheduling.writing.gateremovals import GateRemovals
from apportion.scheduling.writing.pauses import Pauses
from apportion.scheduling.writing.protections import Protections
from apportion.scheduling.writing.unknownwrites import UnknownWrites
from apportion.scheduling.writing.writer import Writer

_log = structlog.get_logger()
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 30.0
_FIRST_ENDING, _LONGEST_ENDING = 1.0, 60.0
"""Seconds after which the end of an allocation, or of our finalizer, is tried anew where it failed."""
_MADE = 2.0
"""Seconds after which a template is made again, if pods still wait for it."""
_TEMPLATES = 64
"""Templates of a namespace that are made at once; its pods may name tens of thousands."""


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
        self._pauses = Pauses(clock, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        """Of demands after a failed write, by key."""
        self._showing: set[str] = set()
        """Pods of which we write that they are unschedulable, or are not."""
        self.clearing: set[str] = set()
        """Claims (UIDs) whose allocation we are clearing."""
        self._releasing: set[str] = set()
        self._endings = Pauses(clock, first=_FIRST_ENDING, longest=_LONGEST_ENDING)
        """Of claims (UIDs) whose allocation could not be cleared, or whose finalizer could not be removed."""
        self._making: dict[str, set[Template]] = {}
        """By namespace: templates that we make, or have made a moment ago."""
        self._unknown = UnknownWrites(snapshot, writer, clock=clock, wake=wake)
        self._tasks: set[asyncio.Task[None]] = set()
        self.protections = Protections(writer, recorder, self._spawn, clock=clock)
        self.gate_removals = GateRemovals(snapshot, writer, recorder, self._spawn, clock=clock, wake=wake)

    async def finished(self) -> None:
        """Wait until nothing is under way, and nothing can be carried out later, as long as this replica may write."""
        await self.answered()
        await self._unknown.withdraw_all()

    async def answered(self) -> None:
        """Wait for the answers to all that was asked so far."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def open(self) -> bool:
        """Whether something may still be carried out; any thread may ask."""
        return bool(self._tasks) or self._unknown.open or self.gate_removals.unanswered

    @property
    def unknown(self) -> int:
        """How many allocations may have been written, or may be later, without anybody knowing."""
        return len(self._unknown)

    def settle(self) -> None:
        """Go on with the writes that were not answered."""
        if self._unknown:
            self._spawn(self._unknown.withdraw_due())

    def paused(self, demand: str) -> bool:
        """Say whether a demand (its key) waits after a failed write."""
        return demand in self._pauses

    def write(
        self, demand: WaitingDemand, pairs: Sequence[tuple[Claim, Allocation]], *, since: float | None
    ) -> None:
        """Write one decision, which is assumed; `since` is when the demand was first seen, by the clock."""
        assumed = self._snapshot.assumed
        assumptions = [(claim, found) for claim, _ in pairs if (found := assumed.get(claim.uid)) is not None]
        self._spawn(self._write(demand, assumptions, since))

    def ungate(
        self,
        pods: Iterable[Pod],
        rank_tables: Callable[[Sequence[Pod]], Mapping[str, str]] = lambda _: {},
    ) -> None:
        """Remove the gates of these pods, as `GateRemovals` does, but of those whose claims we are clearing."""
        self.gate_removals.begin(pods, rank_tables, keeps=self._loses)

    def _loses(self, pod: Pod) -> bool:
        """Say whether a claim of a pod is being cleared: without its gate kube-scheduler might bind the pod to the node of what is gone by then."""
        return bool(self.clearing) and any(
            claim and claim.uid in self.clearing for claim in self._snapshot.named_claims(pod)
        )

    def ungating(self, pod: str) -> bool:
        """Say whether a pod's gate (UID) is being removed."""
        return pod in self.gate_removals

    def show(self, pod: Pod, why: str) -> None:
        """Let autoscalers see a pod behind our gate, with the reason; without one no longer."""
        if pod.uid not in self._showing:
            self._showing.add(pod.uid)
            self._spawn(self._show(pod, why))

    def clear(self, claim: Claim, why: str, reason: str) -> None:
        """Clear an allocation; `why` is for people, `reason` for the metric. Not while the pod that it is reserved for loses its gate, nor in a pause after a failure."""
        if claim.uid in self.clearing or claim.uid in self._endings:
            return
        if not any(self.ungating(user.uid) for user in claim.reserved_for):
            self.clearing.add(claim.uid)
            self._spawn(self._clear(claim, why, reason))

    def release(self, claim: Claim) -> None:
        """Remove our finalizer from a claim that is being deleted; not in a pause after a failure."""
        if claim.uid not in self._releasing and claim.uid not in self._endings:
            self._releasing.add(claim.uid)
            self._spawn(self._release(claim))

    def recheck(self, claim: Claim) -> None:
        """Let controller-manager look at a claim's consumers once more."""
        self._spawn(self._recheck(claim))

    def make(self, templates: Iterable[Template]) -> None:
        """Make the templates that are not there, of a namespace so many at once."""
        for template in templates:
            making = self._making.setdefault(template.namespace, set())
            if template not in making and len(making) < _TEMPLATES:
                making.add(template)
                self._spawn(self._make(template))

    async def _write(
        self, demand: WaitingDemand, assumptions: Sequence[tuple[Claim, Assumption]], since: float | None
    ) -> None:
        """Write claim by claim; the demand is tried again after a pause where one fails."""
        for claim, assumption in assumptions:
            version = ""  # on which the allocation depends; empty as long as it was not sent
            try:
                protected = await self._writer.protect(claim)
                if not self._snapshot.sent(assumption, protected):
                    raise Overtaken(f"claim {claim.key} has changed")  # noqa: TRY301 - as if the server had said it
                version = protected
                user = user_ahead(claim, demand.pods, self._snapshot)
                chosen = with_counters(assumption.allocation, self._snapshot)
                await self._writer.allocate(claim, chosen, version, user)
            except Overtaken as error:
                _log.info("claim.overtaken", claim=claim.key, error=str(error))
                # Which way the claim has moved on the watch will show: a request that was sent twice finds itself in its way.
                self._failed(demand, assumption, "overtaken", known=not version)
                self._unknown.note(claim, assumption, version)
            except Missing:
                self._failed(demand, assumption, "overtaken")
            except NotLeading:
                self._failed(demand, assumption, "not leading")
            except Unanswered as error:
                _log.warning("claim.write_unanswered", claim=claim.key, error=str(error))
                self._unanswered(demand, claim, assumption, version)
            except ApiError as error:
                _log.warning("claim.write_failed", claim=claim.key, error=str(error))
                pause = error.retry_after if isinstance(error, Unreachable) else 0.0
                self._failed(demand, assumption, "failed", least=pause)
                events.write_failed(self._recorder, claim, error)
            except Exception:  # noqa: BLE001 - a defect of ours: nobody knows what was carried out
                _log.exception("claim.write_defect", claim=claim.key)
                self._unanswered(demand, claim, assumption, version)
            else:
                assumption.confirmed = True
                metrics.ALLOCATIONS.labels("written").inc()
                if since is not None:
                    metrics.ALLOCATION_SECONDS.observe(self._clock() - since)
                events.allocated(self._recorder, claim, chosen, demand.pods)
                _log.info("claim.allocated", claim=claim.key, node=chosen.node, devices=len(chosen.results))

    def _failed(
        self,
        demand: WaitingDemand,
        assumption: Assumption,
        result: str,
        *,
        known: bool = True,
        least: float = 0.0,
    ) -> None:
        """Let a demand pause (at `least` so many seconds); without `known` the watch decides about the assumption."""
        metrics.ALLOCATIONS.labels(result).inc()
        if known:
            self._snapshot.forget(assumption)
        asyncio.get_running_loop().call_later(self._pauses.begin(demand.key, least), self._wake)

    def _unanswered(self, demand: WaitingDemand, claim: Claim, assumption: Assumption, version: str) -> None:
        """Keep the devices of an allocation that may have been written; without a version only a finalizer may have been."""
        self._failed(demand, assumption, "unanswered", known=not version)
        self._unknown.note(claim, assumption, version)

    async def _show(self, pod: Pod, why: str) -> None:
        try:
            await self._writer.show(pod, why)
        except (ApiError, NotLeading) as error:
            _log.info("pod.not_shown", pod=pod.key, error=str(error))
        else:
            _log.info("pod.shown" if why else "pod.no_longer_shown", pod=pod.key)
        finally:
            self._showing.discard(pod.uid)

    async def _clear(self, claim: Claim, why: str, reason: str) -> None:
        try:
            self._snapshot.clearing(claim.uid)
            user = self._snapshot.pods.get(claim.owner_pod or "")
            if not await self._writer.clear(claim, user):
                self._snapshot.kept(claim.uid)
            else:
                metrics.GIVE_BACKS.labels(reason).inc()
                events.given_back(self._recorder, claim, why)
                _log.info("claim.given_back", claim=claim.key, why=why)
            self._endings.end(claim.uid)
        except (ApiError, NotLeading, BrokenInput) as error:
            if not isinstance(error, Unanswered):
                # Else it may be gone by us, or will be: asked again, the writer finds out.
                self._snapshot.kept(claim.uid)
            _log.info("claim.not_given_back", claim=claim.key, error=str(error))
            self._not_ended(claim, error, "the end of its allocation")
        finally:
            self.clearing.discard(claim.uid)

    async def _release(self, claim: Claim) -> None:
        try:
            await self._writer.release(claim)
            self._endings.end(claim.uid)
        except (ApiError, NotLeading) as error:
            _log.info("claim.not_released", claim=claim.key, error=str(error))
            self._not_ended(claim, error, "the end of the operator's finalizer")
        finally:
            self._releasing.discard(claim.uid)

    def _not_ended(self, claim: Claim, error: Exception, what: str) -> None:
        """Let a claim pause; an Event says so where the API server refuses `what`, as a policy or webhook may do for ever."""
        self._endings.begin(claim.uid)
        if isinstance(error, ApiError) and not isinstance(error, Overtaken | Missing | Unreachable):
            events.write_failed(self._recorder, claim, error, what)

    async def _recheck(self, claim: Claim) -> None:
        try:
            await self._writer.recheck(claim)
        except (ApiError, NotLeading) as error:
            _log.info("claim.not_rechecked", claim=claim.key, error=str(error))
        else:
            _log.info("claim.rechecked", claim=claim.key, why="it is reserved for a pod that is gone")

    async def _make(self, template: Template) -> None:
        try:
            await self._writer.make(template)
        except (ApiError, NotLeading) as error:
            _log.warning("template.not_made", template=template.name, error=str(error))
        # controller-manager needs a moment to make the claims, as long as which the template is still wanted.
        asyncio.get_running_loop().call_later(_MADE, self._made, template)

    def _made(self, template: Template) -> None:
        making = self._making[template.namespace]
        making.discard(template)
        if not making:
            del self._making[template.namespace]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("background_write.failed", error=str(task.exception()), exc_info=task.exception())
