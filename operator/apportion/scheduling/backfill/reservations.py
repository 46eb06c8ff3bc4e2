"""Reservations: devices that are kept for the first of the queue, which do not fit yet, and who may use them until then.

In: demands and groups that were refused, as passes go by. Out: holds in the allocator's state under `reserve:<key>`, which
others see as taken (ADR 4); and the moments at which those that may use them see them as they are.

A reservation is made for a head (`heads.py`) where it will fit first (`planning.py`). It is planned anew when its nodes change,
and from time to time on all nodes; it ends with its demand, and when others come before it. Nothing of it is written anywhere:
the next leader plans it anew.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import structlog

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.reservation import ReservationPlan
from apportion.allocator.terms import Terms
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.backfill import reservationevents
from apportion.scheduling.backfill.heads import Head, heads, key_of, members_of
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.planning import plan
from apportion.scheduling.backfill.reservation import STARTED, Reservation, is_earlier, is_same
from apportion.scheduling.candidates import Candidates
from apportion.scheduling.groups import WaitingGroup
from apportion.scheduling.waiting import WaitingDemand, priority_of

REPLANNED = 30.0
"""Seconds after which a reservation is planned anew on all nodes: it may fit earlier elsewhere by now."""
_log = structlog.get_logger()
_OTHERS = 10.0
"""Seconds until the next plan for each second that one took."""


class Reservations:
    """The reservations of all policies."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        recorder: Recorder,
        *,
        clock: Callable[[], float],
        now: Callable[[], float] = time.time,
        is_preempted: Callable[[WaitingDemand, Head], bool] = lambda _demand, _head: False,
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started.

        `is_preempted`: whether a demand, once it runs, is preempted where a head's reservation begins: it may use its devices.
        """
        self._snapshot = snapshot
        self._candidates = candidates
        self._recorder = recorder
        self._clock = clock
        self._now = now
        self._is_preempted = is_preempted
        self._endings = NodeEndings(snapshot)
        self._hosts = self._slices = -1
        """How far the changes of nodes and slices were read."""
        self._touched: set[str] | None = None
        """The nodes that changed since the latest pass began; None: any may have."""
        self._reserved: dict[str, Reservation] = {}
        """By key of the head."""
        self._exceeding: frozenset[str] = frozenset()
        """Namespaces of which a pod runs longer than it declared."""
        self._resumes = 0.0
        """When the next plan on all nodes may be made, by the clock."""
        self._nowhere: dict[str, tuple[int, float]] = {}
        """Heads that fit nowhere: at which state of slices and nodes, and until when that is believed."""

    def __contains__(self, key: str) -> bool:
        return key in self._reserved

    @property
    def reserved(self) -> Collection[Reservation]:
        """All reservations."""
        return self._reserved.values()

    # Who may use what is reserved. ------------------------------------------------------------------------------

    def runtime(self, demand: WaitingDemand) -> float | None:
        """Return for how many seconds a demand's pods run at most; None: nobody knows.

        As long as a pod of a namespace runs longer than its annotation says, no annotation there is believed.
        """
        if not demand.pods:
            return None
        ends = [pod.runtime.longest(believed=pod.namespace not in self._exceeding) for pod in demand.pods]
        known = [end for end in ends if end is not None]
        return max(known) if len(known) == len(ends) else None

    @contextmanager
    def lifted(self, head: Head) -> Iterator[frozenset[str]]:
        """Let the state show what is reserved, within the block, where these may use it; yields the nodes.

        They are its own reservation's, those of heads of lower priority, those that begin after it has ended, and those
        whose head preempts it.
        """
        usable = [each for each in self._reserved.values() if self._may_use(head, each)]
        with self._released(usable):
            yield frozenset().union(*(each.plan.nodes for each in usable))

    def decide(self, demand: WaitingDemand, asked: Demand, terms: Terms) -> Decision | None:
        """Return what a demand that was refused gets of devices that are reserved and that it may use; None: nothing."""
        with self.lifted(demand) as nodes:
            if asked.nodes is None or nodes.isdisjoint(asked.nodes):
                return None
            reserved = replace(asked, nodes=nodes & asked.nodes)
            return decide(self._snapshot.state, reserved, terms, prefer=self._candidates.idle)

    @contextmanager
    def all_lifted(self) -> Iterator[None]:
        """Let the state show, within the block, what is held by claims."""
        with self._released(list(self._reserved.values())):
            yield

    @contextmanager
    def _released(self, reservations: Sequence[Reservation]) -> Iterator[None]:
        for each in reservations:
            self._snapshot.state.release(each.key)
        try:
            yield
        finally:
            for each in reservations:
                if key_of(each.head) in self._reserved:
                    self._snapshot.state.hold(each.key, each.plan.results)

    def _may_use(self, head: Head, reservation: Reservation) -> bool:
        own = members_of(head)
        if key_of(head) == key_of(reservation.head):
            return True
        managed = self._snapshot.managed
        if priority_of(own[0], managed) > priority_of(members_of(reservation.head)[0], managed):
            return True
        start = reservation.plan.start
        if start is not None:
            runtimes = [self.runtime(demand) for demand in own]
            latest = start - self._now() - STARTED
            if all(runtime is not None and runtime <= latest for runtime in runtimes):
                return True
        return all(self._is_preempted(demand, reservation.head) for demand in own)

    # As passes go by. -------------------------------------------------------------------------------------------

    def begin(
        self,
        gone: Collection[str],
        came: Collection[WaitingDemand],
        groups: Iterable[WaitingGroup],
        skips: Callable[[str], bool],
    ) -> None:
        """Start a pass: end the reservations of demands that wait no more, and plan anew where nodes changed.

        `gone`: demands that went or changed (by key). `came`: those that came or changed. `groups`: those that wait, but for
        those that `skips` names (by `namespace/name`).
        """
        for demand in came:
            for pod in demand.pods:
                if pod.runtime.flaw:
                    reservationevents.bad_runtime(self._recorder, pod)
        self._follow()
        touched, self._touched = self._touched, set()
        if not self._reserved:
            self._exceeding = frozenset()
            return
        self._exceeding = self._endings.exceeding(self._now())
        waiting: dict[str, Head] = {key_of(each): each for each in came}
        waiting |= {key_of(each): each for each in groups if each.demands and each.whole}
        for key, each in tuple(self._reserved.items()):
            former, head = each.head, waiting.get(key)
            if head is not None:
                each.head = head
            elif key in gone or (
                not isinstance(each.head, WaitingDemand) and not skips(each.head.pod_group.key)
            ):
                self.drop(key)
                continue
            start = each.plan.start
            is_over = start is not None and start < self._now()
            changed = is_over or touched is None or touched & each.plan.nodes
            if changed or (head is not None and head != former):
                self._plan_on_its_nodes(key, each)

    def drop(self, key: str) -> None:
        """End a reservation: its head has its devices, waits no more, or comes behind others."""
        each = self._reserved.pop(key, None)
        if each is not None:
            self._snapshot.state.release(each.key)
            self._snapshot.retry_epoch += 1

    def renew(self, refused: Iterable[Head], is_evaluated: Callable[[WaitingDemand], bool]) -> list[Head]:
        """Make the reservation that is due: one plan at most; returns the heads that got their first one.

        `refused`: those that were refused and still wait. `is_evaluated`: whether a demand's selectors were.
        """
        waiting = {key_of(each): each for each in refused}
        for key, each in self._reserved.items():
            waiting.setdefault(key, each.head)
        first = heads(waiting.values(), self._snapshot.managed, self._now())
        kept = {key_of(each) for each in first}
        for key in [key for key in self._reserved if key not in kept]:
            self.drop(key)
        began = self._clock()
        if began < self._resumes:
            return []
        self._follow()
        for head in first:
            if self._is_due(key_of(head), began) and all(map(is_evaluated, members_of(head))):
                made = self._plan(head)
                self._resumes = self._clock() + (self._clock() - began) * _OTHERS
                return made
        return []

    def _is_due(self, key: str, now: float) -> bool:
        known = self._reserved.get(key)
        if known is not None:
            return now - known.planned >= REPLANNED
        epoch, until = self._nowhere.get(key, (-1, 0.0))
        return epoch != self._epoch() or now >= until

    def _plan(self, head: Head) -> list[Head]:
        """Plan on all nodes; a reservation moves only to where its head will fit earlier."""
        key = key_of(head)
        known = self._reserved.get(key)
        found = self._planned(head, None)
        if known is not None:
            known.planned = self._clock()
            if found is not None and is_earlier(found, known.plan):
                self._put(known, found)
            return []
        if found is None:
            self._nowhere = {each: row for each, row in self._nowhere.items() if row[1] > self._clock()}
            self._nowhere[key] = self._epoch(), self._clock() + REPLANNED
            return []
        made = Reservation(head, found, self._now(), self._clock())
        self._reserved[key] = made
        self._put(made, found)
        return [head]

    def _plan_on_its_nodes(self, key: str, reservation: Reservation) -> None:
        found = self._planned(reservation.head, reservation.plan.nodes)
        if found is None:
            # It fits there no more.
            self.drop(key)
        elif not is_same(found, reservation.plan):
            self._put(reservation, found)

    def _planned(self, head: Head, only: frozenset[str] | None) -> ReservationPlan | None:
        own = self._reserved.get(key_of(head))
        with self._released([own] if own is not None else []):
            try:
                return plan(head, self._endings, self._candidates, self._snapshot, now=self._now(), only=only)
            except BrokenInput:
                return None  # it is told when the demand is decided
            except Exception:  # noqa: BLE001 - whatever it is, it is logged, and nothing is reserved
                _log.exception("reservation.defect", head=key_of(head))
                return None

    def _put(self, reservation: Reservation, found: ReservationPlan) -> None:
        if found is not reservation.plan:
            # Others may get what it leaves, or end before it begins.
            self._snapshot.retry_epoch += 1
        reservation.plan = found
        self._snapshot.state.hold(reservation.key, found.results)
        demands = members_of(reservation.head)
        reservationevents.reserved(self._recorder, demands, found, reservation.since, self._awaited(found))

    def _awaited(self, found: ReservationPlan) -> list[Pod]:
        keys = {key: None for place in found.places for key in place.awaited}
        pods = {
            pod.uid: pod for claim in self._snapshot.claims_of(keys) for pod in self._snapshot.users(claim)
        }
        return sorted(pods.values(), key=lambda pod: pod.key)

    def _follow(self) -> None:
        """Look at what changed since the former call."""
        snapshot = self._snapshot
        touched = self._endings.follow()
        self._hosts, hosts = snapshot.changes.hosts.since(self._hosts)
        slices, self._slices = self._slices, snapshot.slice_epoch
        if hosts is None or slices != snapshot.slice_epoch:
            self._touched = None
        elif self._touched is not None:
            self._touched |= touched.union(hosts)

    def _epoch(self) -> int:
        return self._snapshot.slice_epoch + self._snapshot.node_epoch
