"""Preemptions: evicts pods for demands and groups that wait, and keeps what they give back for these.

In: the demands and groups that were not served in a pass. Out: evictions in the background, reservations, and decisions for those
whose devices have become free. Each second victims are searched for some of them, one after the other, and once more on the nodes of one for which devices are reserved; for each of those that wait
one preemption at a time. A pass searches for a while only, and the next one goes on where it stopped: nobody waits for a search that takes long.

A preemption ends when its demand is served, by whatever devices; when the demand is gone; or when it was in vain. Nothing of it is
written down: another leader finds the evicted pods ending, and reserves their devices for the demand again without any
eviction.
"""

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator

import structlog

from apportion import metrics
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.groups import Queued, WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand, place_of
from apportion.scheduling.preemption import events
from apportion.scheduling.preemption.chosen import Chosen
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.evictions import SHOWN, Evicting, Evictions, Preemption
from apportion.scheduling.preemption.granted import Granted
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.holders import Holders
from apportion.scheduling.preemption.inprogress import InProgress, in_progress
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.preemption.preemptors import Preemptors
from apportion.scheduling.preemption.reservation import Reservation
from apportion.scheduling.preemption.serving import Serving
from apportion.scheduling.preemption.takeover import TakeOver
from apportion.scheduling.preemption.victimsearch import VictimSearch
from apportion.scheduling.preemption.victimsearches import VictimSearches
from apportion.scheduling.room.hostcapacity import HostCapacity

_log = structlog.get_logger()
_UNUSED = 60.0
"""Seconds for which devices are kept once all victims are gone, and their claims have them no more."""
_LONGEST = 3600.0
"""Seconds for which they are kept at most: a pod may take its time to end."""
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
        is_begun: Callable[[Queued], bool],
        is_evaluated: Callable[[WaitingDemand], bool],
        is_awaited: Callable[[WaitingDemand], bool],
    ) -> None:
        """`wake` wakes the cycle. `is_begun`: whether the queue is deciding about a group; `is_evaluated`: whether costly selectors have been evaluated; `is_awaited`: whether they are to be."""
        self._decider = decider
        self._serving = Serving(decider, is_begun, clock)
        self._snapshot = decider.snapshot
        self._clock = clock
        self._cooldown = Cooldown(clock)
        self._preemptors = Preemptors(decider, guarantees, self._cooldown, clock)
        self._searches = VictimSearches(
            decider,
            VictimSearch(decider, holders, guarantees, self._cooldown, clock),
            self._preemptors,
            clock=clock,
            in_progress=self._in_progress,
            is_evaluated=is_evaluated,
            start=self._start,
        )
        self._take_over = TakeOver(
            decider, self._searches, self._preemptors, clock=clock, is_awaited=is_awaited
        )
        self._evictions = Evictions(
            evictor,
            decider.recorder,
            self._cooldown,
            clock=clock,
            wake=wake,
            is_needed=self._is_needed,
        )
        self._active: dict[str, Preemption] = {}
        """By key."""
        self._granted = Granted(decider.snapshot)

    @property
    def active(self) -> Collection[Preemption]:
        """Those that have not ended."""
        return self._active.values()

    @property
    def taken_back(self) -> frozenset[str]:
        """The claims (UIDs) whose pods are evicted: no further pod starts with their devices."""
        claims = self._snapshot.claims
        return frozenset(uid for each in self.active for uid in each.taken_back(claims))

    @property
    def go_on(self) -> bool:
        """Whether the next pass should begin at once, to go on with a search."""
        return self._searches.go_on or self._serving.go_on

    async def end(self) -> None:
        """Give up all of it: this replica acts no more. An eviction that was asked for is waited for."""
        self._searches.abandon()
        for preemption in tuple(self._active.values()):
            self._drop(preemption)
        self._granted.clear()  # what becomes of them is not looked at
        self._take_over.end()
        await self._evictions.answered()

    def begin(self, demands: Iterable[WaitingDemand]) -> Iterator[None]:
        """Start a pass: serve those whose devices are free by now, before the queue; `demands`: all that wait. Yields where others may run."""
        self._follow(demands)
        if self._active:
            yield from self._serve_first(self._decider.candidates.capacity())

    def take_over(self, waiting: Collection[Queued]) -> Iterator[None]:
        """Keep what ends already for those whom it would serve, see `TakeOver`; yields where others may run."""
        yield from self._take_over.steps(waiting, [each.preemptor for each in self._active.values()])

    def _follow(self, demands: Iterable[WaitingDemand]) -> None:
        """Give up what is for demands that do not wait any more."""
        if self._active or self._granted.preemptors:
            active = [each.preemptor for each in self._active.values()]
            members = [member for each in (*active, *self._granted.preemptors) for member in each.members]
            known = {claim.uid for member in members for claim in member.claims}
            waiting = {claim.uid: each for each in demands for claim in each.claims if claim.uid in known}
            keys, taken = {each.key for each in waiting.values()}, {each.key for each in members}
            for preemptor, bound in self._granted.settled(waiting):
                namespace = preemptor.demand.claims[0].namespace
                self._cooldown.served(namespace) if bound else self._rest(preemptor)
            for preemption in tuple(self._active.values()):
                # Its demands as they are now: they may have another key.
                del self._active[preemption.preemptor.key]
                preemption.renew(waiting, taken)
                self._active[preemption.preemptor.key] = preemption
                taken.update(member.key for member in preemption.preemptor.members)
                left = [each for each in preemption.preemptor.members if each.key not in keys]
                claims = [self._snapshot.claims.get(claim.uid) for each in left for claim in each.claims]
                lost = any(claim and self._snapshot.allocation(claim) is None for claim in claims)
                if any(claim is None for claim in claims) or (lost and preemption.missed):
                    served = self._granted.is_bound(preemption.preemptor)
                    self._end_served(preemption) if served else self._give_up(preemption)
                    continue
                preemption.missed = lost
                if len(left) == len(preemption.preemptor.members) and all(
                    claim is not None and claim.allocation is not None for claim in claims
                ):
                    self._end_served(preemption)
            followed = (*(each.preemptor for each in self._active.values()), *self._granted.preemptors)
            self._snapshot.changes.bindings.follow(pod for each in followed for pod in each.demand.pods)

    def _serve_first(self, capacity: HostCapacity) -> Generator[None, None, None]:
        """Decide for those whose devices have become free."""
        managed = self._snapshot.managed
        self._serving.begin()
        for preemption in sorted(self._active.values(), key=lambda each: place_of(each.demand, managed)):
            if self._serving.is_due(preemption) and not (yield from self._serves(preemption, capacity)):
                self._give_up(preemption)

    def _serves(self, preemption: Preemption, capacity: HostCapacity) -> Generator[None, None, bool]:
        """Serve one if its devices are free; False: its scheduler refused the node, or deciding broke down."""
        try:
            return (yield from self._serving.serve(preemption, capacity))
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
            _log.exception("preemption.defect", claim=preemption.demand.claims[0].key)
            return False

    def consider(
        self, demands: Iterable[WaitingDemand], groups: Collection[WaitingGroup], *, longest: float = math.inf
    ) -> Generator[None, None, None]:
        """Look after what is under way, and begin a preemption; `demands`, `groups`: those that waited in this pass.

        Yields where others may run. `longest`: the seconds of a pass, of which a part is used for searches; the next pass goes on with them.
        """
        for preemption in tuple(self._active.values()):
            self._look_after(preemption, self._clock())
        yield from self._searches.turn(demands, groups, [each.preemptor for each in self.active], longest)

    def _in_progress(self) -> InProgress:
        """Return what is being done: who is about to get devices, and who goes for them."""
        active = [each for each in self._active.values() if not each.seeks]
        ahead = [each.demand for each in active if self._snapshot.allocation(each.demand.claims[0]) is None]
        going = {pod.uid for each in active if not each.stopped for pod in each.pods}
        kept = (row for each in active for row in each.reservation.rows)
        return in_progress(ahead, going.union(self._evictions.evicted), kept, self._snapshot)

    def _start(self, preemptor: Preemptor, chosen: Chosen, tries: int = 1, evicted: int = 0) -> None:
        rows = tuple(zip(preemptor.members, chosen.decisions, strict=True))
        reservation = Reservation(self._snapshot.state, preemptor.key, rows)
        made = self._active[preemptor.key] = Preemption(
            preemptor,
            reservation,
            chosen.pods,
            chosen.awaited,
            self._clock(),
            chosen.asked,
            chosen.quota,
            chosen.borrowers,
            chosen.holds,
            tries=tries,
            evicted=evicted,
        )
        _log.info(
            "preemption.begins" if chosen.pods else "preemption.waits",
            claim=preemptor.demand.claims[0].key,
            members=len(preemptor.members),
            nodes=sorted(reservation.nodes),
            pods=[pod.key for pod in chosen.pods],
            quota=chosen.quota,
            cost=tuple(chosen.victims.cost),
            proven=chosen.victims.proven,
        )
        self._evictions.begin(made)

    def _have_devices(self, preemption: Preemption) -> list[bool]:
        """Say of each claim whether it has devices now, or is being given some, by this preemption or by what came free elsewhere."""
        claims = [self._snapshot.claims.get(claim.uid) for claim in preemption.demand.claims]
        return [claim is not None and self._snapshot.allocation(claim) is not None for claim in claims]

    def _is_needed(self, preemption: Preemption) -> bool:
        """Say whether pods have to go still: somebody waits, and has not got devices that came free elsewhere."""
        pods = (self._snapshot.pods.get(pod.uid) for pod in preemption.demand.pods)
        waits = any(pod is not None and not pod.deleting and not pod.finished for pod in pods)
        return waits and not preemption.given_up and not all(self._have_devices(preemption))

    def _look_after(self, preemption: Preemption, now: float) -> None:
        """End a preemption that has been in vain; have other victims chosen where some of them stay."""
        if preemption.asked_until is None or preemption.seeks:
            return
        has = self._have_devices(preemption)
        if all(has):
            return  # it is being written
        found = self._snapshot.pods_of(preemption.users(self._snapshot.claims))
        live = [pod for pod in found if not pod.finished]
        staying = [pod for pod in live if not pod.deleting and not self._evictions.was_evicted(pod.uid)]
        if (preemption.stopped or (staying and now - preemption.asked_until >= SHOWN)) and not any(has):
            preemption.seeks = True
            self._searches.do_first(self._choose_others(preemption))
            return
        if live or any(preemption.held(self._snapshot.claims)):
            preemption.gone_since = None
        elif preemption.gone_since is None:
            preemption.gone_since = now
        unused = preemption.gone_since is not None and now - preemption.gone_since >= _UNUSED
        if unused or now - preemption.began >= _LONGEST:
            self._cooldown.waited_in_vain(pod.uid for pod in live)
            self._give_up(preemption)

    def _choose_others(self, preemption: Preemption) -> Generator[None, None, None]:
        """Find other victims, now that some may not be evicted; what ends already costs nothing."""
        preemptor, searches = preemption.preemptor, preemption.tries < _TRIES
        preemption.tries += 1
        try:
            chosen = yield from self._searches.instead(preemptor, preemption.lifted, searches=searches)
        finally:
            preemption.seeks = False
        has = any(self._have_devices(preemption))
        if has or preemption.given_up or preemption.preemptor is not preemptor:
            return  # it has ended meanwhile, or is looked after once more as it is now
        if chosen is None:
            self._give_up(preemption)
        else:
            self._drop(preemption)
            self._start(preemptor, chosen, preemption.tries, preemption.all_evicted(self._snapshot.pods))

    def _end_served(self, preemption: Preemption) -> None:
        self._drop(preemption)
        if preemption.all_evicted(self._snapshot.pods):
            self._granted.add(preemption.preemptor)
        metrics.PREEMPTIONS.labels("served").inc()

    def _give_up(self, preemption: Preemption) -> None:
        self._drop(preemption)
        if preemption.all_evicted(self._snapshot.pods):
            self._rest(preemption.preemptor)

    def _rest(self, preemptor: Preemptor) -> None:
        """Evict nobody for the namespace for a while."""
        demand = preemptor.demand
        self._granted.drop(preemptor.key)
        first = self._preemptors.settings(demand).cooldown.total_seconds()
        seconds = self._cooldown.in_vain(demand.claims[0].namespace, first)
        events.in_vain(self._decider.recorder, demand, seconds)
        metrics.PREEMPTIONS.labels("in vain").inc()

    def _drop(self, preemption: Preemption) -> None:
        """Let others have the devices."""
        if self._active.pop(preemption.preemptor.key, None) is not None:
            preemption.given_up = True
            preemption.reservation.release()
            self._snapshot.retry_epoch += 1
