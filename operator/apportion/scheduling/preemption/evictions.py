"""Evictions: carries out what was decided for one demand, in the background.

In: a preemption. Out: its pods, evicted one after the other once the server would let all of them go; or that it has stopped, because one
of them may not go, or because this replica may not write.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

import structlog

from apportion import metrics
from apportion.cluster.recorder import Recorder
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import ApiError, NotLeading, Unanswered, Unreachable
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption import events
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.evictor import Refused
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.preemption.reservation import Reservation

_log = structlog.get_logger()
SHOWN = 10.0
"""Seconds within which the watch shows that a pod ends whose eviction was not answered, or that was to go for somebody else; then others are chosen."""
_LATE = 180.0
"""Seconds within which it shows the end of one that the server has evicted: a replica that hears nothing for longer leads no more."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A moment at which somebody was asked about."""

    epochs: object
    """What the snapshot was."""
    seen: int
    """How far changes of nodes were read."""
    at: float
    """By the clock."""


@dataclass(slots=True, eq=False)
class Preemption:
    """Pods that go for one demand, or for a group."""

    preemptor: Preemptor
    reservation: Reservation
    pods: tuple[Pod, ...]
    """Those to evict, in order."""
    awaited: tuple[Pod, ...]
    """Those that end already, or are evicted for others."""
    began: float
    asked: tuple[Claim, ...]
    """The demand's claims as the allocator is asked about them."""
    quota: str
    """The quota that takes back what is guaranteed; empty: the pods go by priority."""
    borrowers: Mapping[str, str]
    """By UID of the pods from whom it does: the quota that has borrowed."""
    holds: Mapping[str, tuple[DeviceResult, ...]]
    """What the claims of all these pods have, by UID: gone pods leave it to them until controller-manager takes it away."""
    tries: int = 1
    evicted: int = 0
    unanswered: tuple[Pod, ...] = ()
    """Those whose eviction was not answered: they end, or they do not."""
    asked_until: float | None = None
    """When the last eviction was asked for; None: it goes on."""
    stopped: bool = False
    """An eviction was refused: other victims have to be found."""
    gone_since: float | None = None
    """Since when all victims are gone, and what they had is free."""
    granted: bool = False
    """The demand was given the devices; the watch has not shown it yet, or has shown that they were taken back."""
    given_up: bool = False
    """The demand was served, or is gone: nobody else is evicted for it."""
    seeks: bool = False
    """Other victims are being searched for it."""
    missed: bool = False
    """It had no devices in the latest pass, and did not wait: a write may have failed since the queue was made, or it waits no more."""
    looked: Looked | None = None
    """When the demand was last asked about."""

    @property
    def demand(self) -> WaitingDemand:
        """All that is asked for."""
        return self.preemptor.demand

    def all_evicted(self, pods: Mapping[str, Pod]) -> int:
        """Return how many pods were evicted, those included that end although the eviction was not answered; `pods`: as they are now, by UID."""
        found = [pods.get(pod.uid) for pod in self.unanswered]
        return self.evicted + sum(pod is None or pod.deleting for pod in found)

    def held(self, claims: Mapping[str, Claim]) -> Iterator[Claim]:
        """Yield the claims of the victims that still have what they had; `claims`: as they are now, by UID."""
        for uid, results in self.holds.items():
            claim = claims.get(uid)
            if claim is not None and claim.allocation is not None and claim.allocation.results == results:
                yield claim

    def users(self, claims: Mapping[str, Claim]) -> Collection[str]:
        """Return the pods (UIDs) that have to go: the victims, and who has reserved their claims since."""
        since = [user.uid for claim in self.held(claims) for user in claim.reserved_for]
        return dict.fromkeys([*(pod.uid for pod in (*self.pods, *self.awaited)), *since])

    def taken_back(self, claims: Mapping[str, Claim]) -> Iterator[str]:
        """Yield those of them (UIDs) whose pods go for this, and do not end by themselves."""
        pods = {pod.uid for pod in self.pods if not self.stopped}
        return (each.uid for each in self.held(claims) if any(user.uid in pods for user in each.reserved_for))

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let what is kept be seen as free by the search for other victims."""
        with nullcontext() if self.given_up else self.reservation.lifted():
            yield

    def renew(self, waiting: Mapping[str, WaitingDemand], taken: Collection[str]) -> None:
        """Follow its demands as they are now, by UID of each of their claims: pods that share their claims come and go with claims of their own, and some claims are served before others; `taken`: as `Preemptor.renewed` has it."""
        self.preemptor = self.preemptor.renewed(waiting, taken)
        known = {claim.uid: claim for claim in self.asked}
        self.asked = tuple(known.get(claim.uid, claim) for claim in self.demand.asked)
        self.reservation.rename(self.preemptor.key)


class Evicting(Protocol):
    """Evicts single pods; see `Evictor`."""

    async def refusal(self, pods: Sequence[Pod]) -> Refused | None:
        """Return a pod that could not be evicted now, together with the others; None if all could."""

    async def evict(self, pod: Pod) -> Refused | None:
        """Evict a pod; returns why it stays."""


class Evictions:
    """Those under way."""

    def __init__(
        self,
        evictor: Evicting,
        recorder: Recorder,
        cooldown: Cooldown,
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
        is_needed: Callable[[Preemption], bool],
    ) -> None:
        """`wake` wakes the cycle when all is asked for; `is_needed` says whether pods have to go still."""
        self._evictor = evictor
        self._recorder = recorder
        self._cooldown = cooldown
        self._clock = clock
        self._wake = wake
        self._is_needed = is_needed
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By namespace of pods that are evicted."""
        self._evicted: dict[str, float] = {}
        """Until when the watch may show that pods (UIDs) end that were evicted."""

    @property
    def evicted(self) -> Collection[str]:
        """Return the pods (UIDs) that were evicted a moment ago: the watch may not show yet that they end."""
        now = self._clock()
        self._evicted = {uid: until for uid, until in self._evicted.items() if until > now}
        return self._evicted.keys()

    def was_evicted(self, pod: str) -> bool:
        """Say whether a pod (UID) is one of these."""
        return self._evicted.get(pod, 0.0) > self._clock()

    def begin(self, preemption: Preemption) -> None:
        """Evict the pods of a preemption; one without pods is done.

        Those in one namespace go one after the other: what a PodDisruptionBudget allows once would be promised to several.
        """
        if not preemption.pods:
            preemption.asked_until = self._clock()
            return
        task = asyncio.create_task(self._carry_out(preemption))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answered(self) -> None:
        """Wait for the answers to all that was asked so far."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, preemption: Preemption) -> None:
        """Evict the pods of one, and note what became of it."""
        demand = preemption.demand
        try:
            async with AsyncExitStack() as turns:
                for namespace in sorted({pod.namespace for pod in preemption.pods}):
                    await turns.enter_async_context(self._turns.setdefault(namespace, asyncio.Lock()))
                await self._evict_all(preemption)
        except Unreachable as error:
            # What stays for that is asked once more, `SHOWN` seconds from now: an API server that starts anew would have used up all tries by then.
            _log.info("preemption.unreached", claim=demand.claims[0].key, error=str(error))
        except (ApiError, NotLeading) as error:
            _log.info("preemption.stopped", claim=demand.claims[0].key, error=str(error))
            preemption.stopped = True
        except Exception:  # noqa: BLE001 - whatever it is, the devices are not kept for ever
            _log.exception("preemption.defect", claim=demand.claims[0].key)
            preemption.stopped = True
        finally:
            preemption.asked_until = self._clock()
            self._wake()

    async def _evict_all(self, preemption: Preemption) -> None:
        """Evict the pods one after the other, once the server would let all of them go."""
        refused = await self._evictor.refusal(preemption.pods)
        if refused is not None:
            self._refused(preemption, refused)
        elif self._is_needed(preemption):
            nodes, quota = preemption.reservation.nodes, preemption.quota
            events.preempting(self._recorder, preemption.demand, preemption.pods, nodes, quota)
            for pod in preemption.pods:
                refused = await self._evict(preemption, pod)
                if refused is not None:
                    self._refused(preemption, refused)
                    break

    async def _evict(self, preemption: Preemption, pod: Pod) -> Refused | None:
        """Evict one pod, unless the demand needs it no more."""
        if not self._is_needed(preemption):
            return None
        try:
            refused = await self._evictor.evict(pod)
            if refused is None:
                self._evicted[pod.uid] = self._clock() + _LATE
        except Unanswered as error:
            # It ends, or it does not: the watch shows which.
            preemption.unanswered += (pod,)
            _log.info("preemption.unanswered", pod=pod.key, error=str(error))
            self._evicted[pod.uid] = self._clock() + SHOWN
            return None
        if refused is None:
            preemption.evicted += 1
            metrics.PREEMPTED_PODS.inc()
            borrower = preemption.borrowers.get(pod.uid, "")
            events.preempted(self._recorder, pod, preemption.demand, borrower)
            _log.info("pod.preempted", pod=pod.key, claim=preemption.demand.claims[0].key)
        return refused

    def _refused(self, preemption: Preemption, refused: Refused) -> None:
        self._cooldown.spare(refused.pod.uid)
        preemption.stopped = True
        events.blocked(self._recorder, preemption.demand, refused)
        _log.info("preemption.blocked", pod=refused.pod.key, reason=refused.reason)
