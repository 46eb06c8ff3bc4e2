"""Preemptions: evicts pods for demands that wait, and keeps what they give back for these demands.

In: the demands that were not served in a pass. Out: evictions in the background, reservations, and decisions for the demands
whose devices have become free. One search for victims a second at most; for each demand one preemption at a time.

A preemption ends when its demand is served, by whatever devices; when the demand is gone; or when it was in vain. Nothing of it is
written down: another leader finds the evicted pods ending, and reserves their devices for the demand again without any
eviction.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import structlog

from apportion import metrics
from apportion.allocator.allocate import decide
from apportion.allocator.policyterms import terms_of
from apportion.errors import BrokenInput
from apportion.scheduling.decider import Decider
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.preemption import events
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.evictions import Evicting, Evictions, Preemption
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.holders import Holders
from apportion.scheduling.preemption.preemptors import Preemptors
from apportion.scheduling.preemption.reservation import Reservation
from apportion.scheduling.preemption.victimsearch import Chosen, InProgress, VictimSearch
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.waiting import WaitingDemand, is_current, place_of

_log = structlog.get_logger()
_PAUSE = 1.0
"""Seconds between two searches."""
_UNUSED = 60.0
"""Seconds for which devices are kept once all victims are gone."""
_LONGEST = 3600.0
"""Seconds for which they are kept at most: a pod may take its time to end."""
_SHOWN = 10.0
"""Seconds within which the watch shows that an evicted pod ends."""
_TRIES = 3
"""Times that victims are chosen in one preemption, when some of them may not be evicted."""


class Preemptions:
    """All preemptions of this replica."""

    def __init__(
        self,
        decider: Decider,
        holders: Holders,
        guarantees: Guarantees,
        evictor: Evicting,
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._clock = clock
        self._cooldown = Cooldown(clock)
        self._preemptors = Preemptors(decider, guarantees, self._cooldown, clock)
        self._search = VictimSearch(decider, holders, guarantees, self._cooldown)
        self._evictions = Evictions(evictor, decider.recorder, self._cooldown, clock=clock, wake=wake)
        self._active: dict[str, Preemption] = {}
        """By key of the demand."""
        self._granted: dict[str, WaitingDemand] = {}
        """Demands that were served by a preemption, and whose pods are not bound yet, by key."""
        self._searched = -_PAUSE

    async def end(self) -> None:
        """Give up all of it: this replica acts no more. An eviction that was asked for is waited for."""
        for preemption in tuple(self._active.values()):
            self._drop(preemption)
        await self._evictions.answered()

    def begin(self, demands: Iterable[WaitingDemand]) -> None:
        """Start a pass: serve those whose devices are free by now, before the queue; `demands`: all that wait."""
        self._follow(demands)
        if self._active:
            self._serve_first(self._decider.candidates.capacity())

    def _follow(self, demands: Iterable[WaitingDemand]) -> None:
        """Give up what is for demands that do not wait any more."""
        if self._active or self._granted:
            known = self._active.keys() | self._granted.keys()
            waiting = {demand.key: demand for demand in demands if demand.key in known}
            self._follow_granted(waiting)
            for key, preemption in tuple(self._active.items()):
                claims = [self._snapshot.claims.get(claim.uid) for claim in preemption.demand.claims]
                if key in waiting:
                    preemption.demand = waiting[key]
                elif all(claim is not None and claim.allocation is not None for claim in claims):
                    self._end_served(preemption)
                elif any(claim is None or self._snapshot.allocation(claim) is None for claim in claims):
                    self._give_up(preemption)

    def _follow_granted(self, waiting: Collection[str]) -> None:
        """Look at who was served: a demand that lost its devices before a pod had them waits again, and all was in vain."""
        for key, demand in tuple(self._granted.items()):
            claims = [self._snapshot.claims.get(claim.uid) for claim in demand.claims]
            if key in waiting:
                self._rest(demand)
            elif all(claim is None for claim in claims):
                del self._granted[key]
            elif any(pod.node for claim in claims if claim for pod in self._snapshot.users(claim)):
                self._cooldown.served(demand.claims[0].namespace)
                del self._granted[key]

    def _serve_first(self, capacity: HostCapacity) -> None:
        """Decide for the demands whose devices have become free."""
        managed = self._snapshot.managed
        for preemption in sorted(self._active.values(), key=lambda each: place_of(each.demand, managed)):
            now = self._snapshot.device_epoch, self._snapshot.retry_epoch, self._snapshot.changes.hosts.end
            if (
                preemption.looked != now
                and is_current(preemption.demand, self._snapshot)
                and not self._decider.writes.paused(preemption.demand.key)
            ):
                preemption.looked = now
                self._serve(preemption, capacity)

    def _serve(self, preemption: Preemption, capacity: HostCapacity) -> None:
        # Asked as when victims were chosen: without alternatives that its guarantee does not cover.
        demand, decider = replace(preemption.demand, asked=preemption.asked), self._decider
        try:
            decider.quotas.check(demand)
        except OverLimit:
            return  # the walk through the queue says so
        asked = decider.reservations.ask(demand, capacity)
        if isinstance(asked, str) or preemption.reservation.node not in (asked.nodes or ()):
            if preemption.granted and not isinstance(asked, str):
                self._give_up(preemption)  # its scheduler refused the node
            return
        here = replace(asked, nodes=frozenset({preemption.reservation.node}))
        terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
        try:
            with decider.reservations.lifted(demand), preemption.reservation.lifted():
                found = decide(self._snapshot.state, here, terms, prefer=decider.candidates.idle)
                if found is None:
                    return
                decision = decider.admissible.of(demand, here, terms, found, None)
        except (BrokenInput, OverLimit):
            return  # the walk through the queue meets it again, and says so
        # What was decided is kept until the watch shows it: the write may fail, and then it is decided again.
        preemption.reservation.release()
        preemption.reservation = Reservation(self._snapshot.state, demand.key, decision)
        preemption.granted = True
        decider.learn(demand, decision)
        decider.grant(demand, decision, capacity)

    def consider(self, demands: Sequence[WaitingDemand]) -> None:
        """Look after what is under way, and begin a preemption for one demand; `demands`: those that waited in this pass."""
        now = self._clock()
        if not self._active and (now - self._searched < _PAUSE or not self._preemptors.exist()):
            return
        capacity = self._decider.candidates.capacity()
        for preemption in tuple(self._active.values()):
            self._look_after(preemption, now, capacity)
        if now - self._searched < _PAUSE or not self._preemptors.exist():
            return
        self._searched = now
        found = self._search.claims()
        for demand in self._preemptors.first(demands, self._active) if found.claims else ():
            if self._decider.quotas.stands_back((demand,)):
                continue  # it waits for its quota, or others go before it
            evicts = self._preemptors.may_evict(demand)
            if evicts or found.ending:
                nodes = found.claims.keys() if evicts else found.ending
                chosen = self._search.search(
                    demand, found, nodes, capacity, self._in_progress(), evicts=evicts
                )
                if isinstance(chosen, Chosen):
                    self._start(demand, chosen, now)
                else:
                    self._preemptors.found_none(demand)
                    events.not_taken_back(self._decider.recorder, demand, chosen)
                return

    def _in_progress(self) -> InProgress:
        """Return what is being done: who is about to get devices, and who goes for them."""
        active = self._active.values()
        return InProgress(
            [each.demand for each in active if self._snapshot.allocation(each.demand.claims[0]) is None],
            {pod.uid for each in active if not each.stopped for pod in each.pods},
        )

    def _start(
        self, demand: WaitingDemand, chosen: Chosen, now: float, tries: int = 1, evicted: int = 0
    ) -> None:
        reservation = Reservation(self._snapshot.state, demand.key, chosen.victims.decision)
        made = self._active[demand.key] = Preemption(
            demand,
            reservation,
            chosen.pods,
            now,
            chosen.asked,
            chosen.quota,
            chosen.borrowers,
            tries=tries,
            evicted=evicted,
        )
        _log.info(
            "preemption.begins" if chosen.pods else "preemption.waits",
            claim=demand.claims[0].key,
            node=reservation.node,
            pods=[pod.key for pod in chosen.pods],
            quota=chosen.quota,
            cost=tuple(chosen.victims.cost),
            proven=chosen.victims.proven,
        )
        self._evictions.begin(made)

    def _look_after(self, preemption: Preemption, now: float, capacity: HostCapacity) -> None:
        """End a preemption that has been in vain; choose other victims where some of them stay."""
        if preemption.asked_until is None:
            return
        if any(self._snapshot.allocation(claim) is not None for claim in preemption.demand.claims):
            return  # it is being written
        live = [self._snapshot.pods.get(pod.uid) for pod in preemption.pods]
        stays = now - preemption.asked_until >= _SHOWN and any(
            pod is not None and not pod.deleting and not pod.finished for pod in live
        )
        if preemption.stopped or stays:
            self._choose_others(preemption, now, capacity)
            return
        if any(pod is not None and not pod.finished for pod in live):
            preemption.gone_since = None
        elif preemption.gone_since is None:
            preemption.gone_since = now
        unused = preemption.gone_since is not None and now - preemption.gone_since >= _UNUSED
        if unused or now - preemption.began >= _LONGEST:
            self._give_up(preemption)

    def _choose_others(self, preemption: Preemption, now: float, capacity: HostCapacity) -> None:
        """Find other victims, now that some may not be evicted; what ends already costs nothing."""
        demand = preemption.demand
        self._drop(preemption)
        chosen = None
        if preemption.tries < _TRIES:
            found, in_progress = self._search.claims(), self._in_progress()
            chosen = self._search.search(
                demand, found, found.claims.keys(), capacity, in_progress, evicts=True
            )
        if isinstance(chosen, Chosen):
            self._start(demand, chosen, now, preemption.tries + 1, preemption.evicted)
        elif preemption.evicted:
            self._give_up(preemption)
        else:
            self._preemptors.found_none(demand)

    def _end_served(self, preemption: Preemption) -> None:
        self._drop(preemption)
        if preemption.evicted:
            self._granted[preemption.demand.key] = preemption.demand
        metrics.PREEMPTIONS.labels("served").inc()

    def _give_up(self, preemption: Preemption) -> None:
        self._drop(preemption)
        if preemption.evicted:
            self._rest(preemption.demand)

    def _rest(self, demand: WaitingDemand) -> None:
        """Evict nobody for the demand's namespace for a while."""
        self._granted.pop(demand.key, None)
        first = self._preemptors.settings(demand).cooldown.total_seconds()
        seconds = self._cooldown.in_vain(demand.claims[0].namespace, first)
        events.in_vain(self._decider.recorder, demand, seconds)
        metrics.PREEMPTIONS.labels("in vain").inc()

    def _drop(self, preemption: Preemption) -> None:
        """Let others have the devices."""
        if self._active.pop(preemption.demand.key, None) is not None:
            preemption.given_up = True
            preemption.reservation.release()
            self._snapshot.retry_epoch += 1
