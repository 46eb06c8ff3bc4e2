"""ReservedDevices: holds for reservations, and who may use the devices until then.

In: reservations. Out: holds in the allocator's state under keys of their own, which others see as taken (ADR 4), and room that is kept for the
head's pods on the nodes; and, for those that may use them, all as it is without.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import may_serve
from apportion.allocator.rules.query import Query
from apportion.allocator.terms import Terms
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.scheduling.backfill.heads import Head, key_of, members_of, queue_of
from apportion.scheduling.backfill.reservation import Reservation
from apportion.scheduling.backfill.runtimes import ends_at, runtime_of
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.waiting import WaitingDemand, priority_of
from apportion.scheduling.room.hostcapacity import HostCapacity


@dataclass(frozen=True, slots=True)
class Offer:
    """What a demand may have of reserved devices."""

    asked: Demand
    """On the nodes of the reservations."""
    kept: Sequence[Reservation]
    """The reservations that it may use, as far as they keep anything."""
    key: tuple[object, ...]
    """What decides whether it gets something."""


class ReservedDevices:
    """The devices that are reserved."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        *,
        now: Callable[[], float] = time.time,
        is_preempted: Callable[[WaitingDemand, Head], bool] = lambda _demand, _head: False,
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started.

        `is_preempted`: whether a demand, once it runs, is preempted where a head's reservation begins: it may use its devices.
        """
        self._snapshot = snapshot
        self._candidates = candidates
        self._capacity = candidates.capacity()
        self._now = now
        self._is_preempted = is_preempted
        self.reuse = True
        """Whether what cannot have changed is not asked and planned again; if not, it is the reference that tests compare with."""
        self._reserved: dict[str, Reservation] = {}
        """By key of the head."""
        self._by_queue: tuple[object, dict[int, list[tuple[int, Reservation]]]] | None = None
        """The reservations with the priorities of their heads, by their policy's queue (its `id`), and the managed classes by which.

        None: to be read anew.
        """
        self._exceeding: frozenset[str] = frozenset()
        """Namespaces of which a pod runs longer than it declared."""
        self._keeping: dict[str, tuple[DeviceResult, ...]] = {}
        """The devices that a reservation keeps and nobody uses, by key of its head; of some nobody has asked since their nodes changed."""
        self._moment = -1
        """How far the state's changes of nodes were read."""
        self._in_vain: set[tuple[object, ...]] = set()
        """What was asked about reserved devices in this pass in vain, since something changed."""
        self._enough: dict[Query, dict[str, bool]] = {}
        """Whether there may be enough devices on the nodes of a reservation (by its key), since something changed, by what is asked for."""

    def __contains__(self, key: str) -> bool:
        return key in self._reserved

    @property
    def reserved(self) -> Collection[Reservation]:
        """All reservations."""
        return self._reserved.values()

    def drop(self, key: str) -> None:
        """End a reservation: its head has its devices, waits no more, or comes behind others."""
        self._by_queue = None
        each = self._reserved.pop(key, None)
        self._keeping.pop(key, None)
        if each is not None:
            self._release(each)
            self._snapshot.retry_epoch += 1

    def leaves(self, key: str, nodes: Collection[str]) -> bool:
        """Say whether devices are reserved on others than these nodes, which a head leaves that gets its devices on these."""
        own = self._reserved.get(key)
        return own is not None and not own.plan.nodes <= {*nodes}

    def is_free(self, key: str) -> bool:
        """Say whether devices are reserved for a head that nobody uses any more, beside those for whom others are."""
        each = self._reserved.get(key)
        if each is None:
            return False
        state, keys = self._snapshot.state, {other.key for other in self._reserved.values()}
        return all(keys.issuperset(state.holders(result.device)) for result in each.plan.results)

    def nodes_changed_since(self, key: str, at: float) -> frozenset[str]:
        """Return the nodes where devices are reserved for a head, if something changed there after that moment, by the clock."""
        each = self._reserved.get(key)
        return each.plan.nodes if each is not None and each.changed > at else frozenset()

    def runtime(self, demand: WaitingDemand) -> float | None:
        """Return for how many seconds a demand's pods run at most; None: nobody knows."""
        return runtime_of(demand, self._exceeding)

    @contextmanager
    def lifted(self, head: Head) -> Iterator[frozenset[str]]:
        """Let the state show what is reserved, within the block, where these may use it; yields the nodes.

        They are its own reservation's, those of heads of lower priority, those that begin after it has ended, and those
        whose head preempts it. No node is named where that shows nothing more than the state does.
        """
        usable = self._usable(head, self._reserved.values())
        idle = self._idle()
        with self._released(usable):
            yield frozenset().union(*(each.plan.nodes for each in usable if each in idle))

    def offers(self, demand: WaitingDemand) -> bool:
        """Say whether devices are reserved that nobody uses and that a demand may, and these may be enough for it."""
        if not self.reuse:
            return True
        idle = self._idle()
        return bool(idle) and bool(
            self._usable(demand, self._sufficing(self._candidates.ask_on(demand, ""), idle))
        )

    def ask(self, demand: WaitingDemand, capacity: HostCapacity, no_node: str | None = None) -> Demand | str:
        """Return what to ask of the allocator, also about nodes whose room is kept for others and that it may use; or why no node could take the pods.

        `no_node`: the latter, if it is known as far as others are concerned.
        """
        usable = self._usable(demand, (each for each in self._reserved.values() if each.room))
        if no_node is not None and not usable:
            return no_node
        with self._put_back():
            for each in usable:
                capacity.keep(each.key, {})
            try:
                return self._candidates.ask(demand, capacity)
            finally:
                for each in usable:
                    capacity.keep(each.key, each.room)

    def offer(self, demand: WaitingDemand, asked: Demand, *, was_asked: bool) -> Offer | None:
        """Return what to ask about devices that are reserved, of which a demand that was refused may use some; None: there is nothing for it.

        `was_asked`: whether it was refused on just these nodes, so that what only keeps room there changes nothing.
        """
        idle, state = self._idle(), self._snapshot.state
        if was_asked and self.reuse:
            idle = [each for each in idle if self._keeping[key_of(each.head)]]
        usable = self._usable(demand, idle)
        nodes = frozenset().union(*(each.plan.nodes for each in usable)).intersection(asked.nodes or ())
        if not nodes or (self.reuse and not self._sufficing(asked, usable)):
            return None
        # What decides whether it gets something: how devices are chosen among those that do does not.
        query = state.queries.of(asked.claims, state.classes, state.features, asked.tolerations)
        key = query, nodes, asked.excluded, *(each.key for each in usable)
        if self.reuse and key in self._in_vain:
            return None
        # Without those that keep nothing the state would be the same: they keep room, which is not asked about here.
        kept = [each for each in usable if self._keeping[key_of(each.head)]] if self.reuse else usable
        return Offer(replace(asked, nodes=nodes), kept, key)

    def decide(self, offer: Offer, terms: Terms) -> Decision | None:
        """Return what a demand gets of what it is offered now; None: nothing."""
        with self.lifting(offer):
            found = decide(self._snapshot.state, offer.asked, terms, prefer=self._candidates.idle)
        if found is None:
            self._in_vain.add(offer.key)
        return found

    @contextmanager
    def lifting(self, offer: Offer) -> Iterator[None]:
        """Let the state show, within the block, what is offered."""
        with self._put_back(), self._released(offer.kept):
            yield

    @contextmanager
    def all_lifted(self) -> Iterator[None]:
        """Let the state show, within the block, what is held by claims."""
        with self._released(list(self._reserved.values())):
            yield

    @contextmanager
    def _released(self, reservations: Sequence[Reservation]) -> Iterator[None]:
        for each in reservations:
            self._release(each)
        try:
            yield
        finally:
            for each in reservations:
                if key_of(each.head) in self._reserved:
                    self._snapshot.state.hold(each.key, each.plan.results)
                    self._capacity.keep(each.key, each.room)

    def _release(self, reservation: Reservation) -> None:
        self._snapshot.state.release(reservation.key)
        if reservation.room:
            self._capacity.keep(reservation.key, {})

    @contextmanager
    def _put_back(self) -> Iterator[None]:
        """Let what was read of the state stay true: what changes within the block is put back until its end, at once."""
        state = self._snapshot.state
        known = self._moment == state.moment
        try:
            yield
        finally:
            if known:
                self._moment = state.moment

    def _idle(self) -> list[Reservation]:
        """Return the reservations that keep room, or devices which nobody uses; without the others all would be the same."""
        if not self.reuse:
            return list(self._reserved.values())
        state, known = self._snapshot.state, self._keeping
        self._moment, changed = state.since(self._moment)
        if changed is None or changed or len(known) < len(self._reserved):
            self._in_vain.clear()
            self._enough.clear()
            keys = {each.key for each in self._reserved.values()}
            for key, each in self._reserved.items():
                if key not in known or changed is None or not each.plan.nodes.isdisjoint(changed):
                    known[key] = state.kept(each.key, keys)
        return [each for key, each in self._reserved.items() if known[key] or each.room]

    def _sufficing(self, asked: Demand, reservations: Iterable[Reservation]) -> list[Reservation]:
        """Return those on whose nodes there may be enough devices for a demand once all are lifted, by counting: to ask takes longer."""
        state, published = self._snapshot.state, self._snapshot.devices.device
        query = state.queries.of(asked.claims, state.classes, state.features, asked.tolerations)
        known = self._enough.setdefault(query, {})
        found: list[Reservation] = []
        for each in reservations:
            if each.key not in known:
                kept = [result for results in self._keeping.values() for result in results]
                # What a withdrawn device takes of counters is known only while it is held.
                known[each.key] = any(published(result.device) is None for result in kept) or any(
                    may_serve(state, asked, node, kept) for node in each.plan.nodes
                )
            if known[each.key]:
                found.append(each)
        return found

    def _usable(self, head: Head, reservations: Iterable[Reservation]) -> list[Reservation]:
        """Return those of some reservations whose devices these may use until their heads start."""
        among = list(reservations)
        if not among:
            return among
        members, own, priority = members_of(head), self._reserved.get(key_of(head)), self._priority(head)
        known = any(each.plan.start is not None for each in among)
        end = self._ends_at(members) if known else math.inf
        return [
            each
            for each in among
            if (each.plan.start is not None and end <= each.plan.start)
            or each is own
            or priority > self._priority(each.head)
            or all(self._is_preempted(demand, each.head) for demand in members)
        ]

    def _ends_at(self, members: Sequence[WaitingDemand]) -> float:
        """Return when all pods of some demands will have ended if they get devices now; infinite: nobody knows."""
        runtimes = [self.runtime(demand) for demand in members]
        longest = max((each for each in runtimes if each is not None), default=0.0)
        return ends_at(self._now(), longest) if None not in runtimes else math.inf

    def _of_policy(self, head: Head) -> list[tuple[int, Reservation]]:
        """Return the reservations of a head's policy, with the priorities of their heads, the lowest first."""
        managed = self._snapshot.managed
        if self._by_queue is None or self._by_queue[0] is not managed:
            self._by_queue = managed, {}
            for each in sorted(self._reserved.values(), key=lambda each: self._priority(each.head)):
                row = self._priority(each.head), each
                self._by_queue[1].setdefault(id(queue_of(each.head, managed)), []).append(row)
        return self._by_queue[1].get(id(queue_of(head, managed)), [])

    def _priority(self, head: Head) -> int:
        return priority_of(members_of(head)[0], self._snapshot.managed)
