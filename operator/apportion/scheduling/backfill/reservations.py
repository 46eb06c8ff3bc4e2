"""Reservations: devices that are kept for the first of the queue, which do not fit yet.

In: demands and groups that were refused, as passes go by. Out: reservations, made, moved and ended.

A reservation is made for a head (`heads.py`) where it will fit first (`planning.py`). It is planned anew when its nodes change,
and from time to time on all nodes; it ends with its demand, or gives way to one of higher priority. Nothing of it is written anywhere:
the next leader plans it anew.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from apportion.allocator.reservation import ReservationPlan
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill import reservationevents
from apportion.scheduling.backfill.attempts import Attempts, Lifted
from apportion.scheduling.backfill.changednodes import ChangedNodes
from apportion.scheduling.backfill.heads import Head, heads, key_of, members_of, queue_of, waited_enough
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.planning import awaited, basis, circumstances, is_unsettled, room, suits
from apportion.scheduling.backfill.reservation import Compared, Reservation, is_earlier, is_same
from apportion.scheduling.backfill.reserveddevices import ReservedDevices
from apportion.scheduling.candidates.admissible import Admissible
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.admission import Admission

REPLANNED = 30.0
"""Seconds after which a reservation is planned anew on all nodes: it may fit earlier elsewhere by now."""
_OTHERS = 50.0
"""Seconds until the next plan for each second of one that led to nothing new."""


class Reservations(ReservedDevices):
    """The reservations of all policies."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        admissible: Admissible,
        quotas: Admission,
        recorder: Recorder,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started."""
        super().__init__(snapshot, candidates, now=now)
        self._recorder, self._clock, self._left_of = recorder, clock, quotas.left_of
        self._endings = NodeEndings(snapshot)
        self.nodes = ChangedNodes(snapshot, self._endings)
        """What changed on nodes."""
        self._attempts = Attempts(
            snapshot, candidates, admissible, self._endings, self.nodes, clock=clock, now=now
        )
        self._resumes = 0.0
        """When the next plan on all nodes may be made, by the clock."""
        self._nowhere: dict[str, tuple[int, float]] = {}
        """Heads that fit nowhere: at which state of slices and nodes, and until when that is believed."""

    def begin(
        self,
        gone: Collection[str],
        came: Collection[WaitingDemand],
        groups: Iterable[WaitingGroup],
        skips: Callable[[str], bool],
    ) -> Iterator[None]:
        """Start a pass: end the reservations of demands that wait no more, and plan anew where nodes changed. Yields after each plan, and where one takes long.

        `gone`: demands that went or changed (by key). `came`: those that came or changed. `groups`: those that wait, but for
        those that `skips` names (by `namespace/name`).
        """
        for pod in (pod for demand in came for pod in demand.pods if pod.runtime.flaw):
            reservationevents.bad_runtime(self._recorder, pod)
        touched = self.nodes.begin()
        self._in_vain.clear()
        if not self._reserved:
            self._exceeding = frozenset()
            return
        self._exceeding = self._endings.exceeding(self._now())
        waiting: dict[str, Head] = {key_of(each): each for each in came}
        waiting |= {key_of(each): each for each in groups if each.demands and each.whole}
        for key, each in tuple(self._reserved.items()):
            if key not in self._reserved:
                continue  # it gave way to one before it
            head = waiting.get(key)
            if head is not None:
                each.head, self._by_queue = head, None
            elif key in gone or (
                not isinstance(each.head, WaitingDemand) and not skips(each.head.pod_group.key)
            ):
                self.drop(key)
                continue
            is_over = each.plan.start is not None and each.plan.start < self._now()
            changed = is_over or touched is None or touched & each.plan.nodes
            each.changed = self._clock() if changed else each.changed
            if changed or each.unsettled is not None or self._left_of(each.head) != each.asked:
                yield from self._plan_on_its_nodes(key, each)
                yield

    def has_place(self, head: Head) -> bool:
        """Say whether devices may be reserved now for one more of its policy."""
        most = queue_of(head, self._snapshot.managed).most_reserved
        return self._clock() >= self._resumes and len(self._of_policy(head)) < most

    def is_candidate(self, head: Head) -> bool:
        """Say whether nothing is reserved for one that has waited long enough, and not that it fits nowhere, as far as is known."""
        key, waited = key_of(head), waited_enough(head, self._snapshot.managed, self._now())
        return waited and key not in self._reserved and self._is_due(key, self._clock())

    def renew(
        self,
        waiting: Iterable[Head],
        may_have: Callable[[Head], bool],
        is_evaluated: Callable[[WaitingDemand], bool],
    ) -> Generator[None, None, list[Head]]:
        """Make the reservation that is due: one plan at most; returns the heads that got their first one. Yields where others may run.

        `may_have`: whether one of those that wait was refused, and nothing is against a reservation. `is_evaluated`: whether a
        demand's selectors were.
        """
        managed = self._snapshot.managed
        newest = tuple(reversed(self._reserved.values()))
        for each in sorted(newest, key=lambda each: self._priority(each.head)):
            if len(self._of_policy(each.head)) > queue_of(each.head, managed).most_reserved:
                self.drop(key_of(each.head))  # the policy says less than before
        began = self._clock()
        if began < self._resumes:
            return []
        found = {key_of(each): each for each in waiting} | {
            key: each.head for key, each in self._reserved.items()
        }
        pace = Pace()
        for key, waits in found.items():
            if pace.rests():
                yield
            if self._is_due(key, began) and self._has_slot(waits):
                break  # looking at who may have one takes longer than this
        else:
            return []
        self.nodes.follow()
        planned = {key: each.planned for key, each in self._reserved.items()}
        for head in heads(found.values(), managed, self._now(), may_have, planned):
            if head is None:
                yield
            elif (
                self._is_due(key_of(head), began)
                and self._has_slot(head)
                and all(map(is_evaluated, members_of(head)))
            ):
                self._attempts.seconds = 0.0
                made = yield from self._plan(head)
                if not made:
                    self._resumes = self._clock() + self._attempts.seconds * _OTHERS
                return made
        return []

    def _below(self, head: Head) -> list[Reservation]:
        """Return the reservations for heads of lower priority, the newest first: only these give way to others."""
        own = self._priority(head)
        found = [each for each in reversed(self._reserved.values()) if self._priority(each.head) < own]
        return sorted(found, key=lambda each: self._priority(each.head))

    def _has_slot(self, head: Head) -> bool:
        most, others = queue_of(head, self._snapshot.managed).most_reserved, self._of_policy(head)
        if key_of(head) in self._reserved or len(others) < most:
            return True
        return bool(most) and others[0][0] < self._priority(head)

    def _is_due(self, key: str, now: float) -> bool:
        known = self._reserved.get(key)
        if known is not None:
            return now - known.planned >= REPLANNED
        epoch, until = self._nowhere.get(key, (-1, 0.0))
        return epoch != self._epoch() or now >= until

    def _plan(self, head: Head) -> Generator[None, None, list[Head]]:
        """Plan on all nodes; a reservation moves only to where its head will fit earlier."""
        key, asked = key_of(head), self._left_of(head)
        known, own = self._reserved.get(key), circumstances(asked, self._candidates)
        # What changes meanwhile is looked at by the next plan.
        end, epoch = self.nodes.end, self._epoch()
        seen = known.compared_at(own) if known is not None and self.reuse else None
        only = self.nodes.since(seen) if seen is not None else None
        found = yield from self._planned(asked, only)
        if known is not None:
            known.planned = self._clock()
            if found is not None and is_earlier(found, known.plan):
                self._put(known, found)
            is_compared = found is not None or only is not None
            known.compared = Compared(known.plan, end, own) if is_compared else None
            if not (yield from suits(known.plan, asked, self._candidates)):
                yield from self._plan_on_its_nodes(key, known)
            return []
        if found is None:
            self._nowhere = {each: row for each, row in self._nowhere.items() if row[1] > self._clock()}
            self._nowhere[key] = epoch, self._clock() + REPLANNED
            return []
        for each in self._yielding(head):
            self.drop(key_of(each.head))
        compared = Compared(found, end, own)
        made = Reservation(head, found, self._now(), self._clock(), compared=compared, asked=asked)
        self._reserved[key], self._by_queue = made, None
        self._put(made, found)
        return [head]

    def _plan_on_its_nodes(self, key: str, reservation: Reservation) -> Iterator[None]:
        head, former = self._left_of(reservation.head), reservation.plan
        reservation.asked = head
        now = basis(former, head, self._candidates, self._snapshot) if self.reuse else None
        known = former.places[0].decision if now is not None and now == reservation.basis else None
        make = partial(self._attempts.in_steps, head, former.nodes, known=known)
        found = yield from make(self._without(head, ()))
        if found is None and (below := self._below(head)):
            found = yield from make(self._without(head, below))
        if found is None:
            self._keep_or_drop(key, reservation)
            return
        reservation.unsettled = None
        if is_same(found, former):
            self._keep_room(reservation, found)
        else:
            self._put(reservation, found)
        reservation.basis = now

    def _keep_or_drop(self, key: str, reservation: Reservation) -> None:
        """End a reservation that fits on its nodes no more; one that probably fits there again in a moment only if it does not within REPLANNED."""
        since = reservation.unsettled if reservation.unsettled is not None else self._clock()
        if is_unsettled(reservation.plan, self._snapshot) and self._clock() - since < REPLANNED:
            reservation.unsettled, reservation.basis = since, None
        else:
            self.drop(key)

    def _planned(
        self, head: Head, only: frozenset[str] | None
    ) -> Generator[None, None, ReservationPlan | None]:
        """Return the plan beside the reservations of others; if there is none, without those for heads of lower priority.

        `only`: the nodes that are looked at; its own plan stands then, so that those of lower priority do not give way.
        """
        make = partial(self._attempts.in_steps, head, only)
        found = yield from make(self._without(head, self._yielding(head)))
        below = self._below(head) if found is None and only is None else []
        return (yield from make(self._without(head, below))) if below else found

    def _without(self, head: Head, others: Sequence[Reservation]) -> Lifted:
        """Return what lets the state show, within a block, less than its own reservation and those of others."""
        own = [each for key, each in self._reserved.items() if key == key_of(head)]

        @contextmanager
        def lifted() -> Iterator[None]:
            with self._put_back(), self._released([*own, *others]):
                yield

        return lifted

    def _yielding(self, head: Head) -> list[Reservation]:
        """Return the reservation that ends if a head gets its first one, because its policy has no place for one more."""
        others = self._of_policy(head)
        if (
            key_of(head) in self._reserved
            or len(others) < queue_of(head, self._snapshot.managed).most_reserved
        ):
            return []
        return [each for each in self._below(head) if any(each is other for _, other in others)][:1]

    def _put(self, reservation: Reservation, found: ReservationPlan) -> None:
        if found is not reservation.plan:
            # Others may get what it leaves, or end before it begins.
            self._snapshot.retry_epoch += 1
        devices = {result.device for result in found.results}
        for each in self._below(reservation.head):
            if not devices.isdisjoint(result.device for result in each.plan.results):
                self.drop(key_of(each.head))
        reservation.plan, reservation.basis, reservation.unsettled = found, None, None
        self._snapshot.state.hold(reservation.key, found.results)
        self._keep_room(reservation, found)
        demands = members_of(reservation.head)
        pods = awaited(found, self._snapshot)
        reservationevents.reserved(self._recorder, demands, found, reservation.since, pods)

    def _keep_room(self, reservation: Reservation, found: ReservationPlan) -> None:
        kept = room(found, reservation.head, self._snapshot)
        if kept != reservation.room:
            freed = any(
                node not in kept or kept[node].leaves(former) for node, former in reservation.room.items()
            )
            reservation.room = kept
            self._capacity.keep(reservation.key, kept)
            # More that is kept lets nobody in who was refused.
            self._snapshot.retry_epoch += freed

    def _epoch(self) -> int:
        return self._snapshot.slice_epoch + self._snapshot.node_epoch
