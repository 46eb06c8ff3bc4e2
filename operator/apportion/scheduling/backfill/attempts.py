"""Attempts: plans of reservations, which are given up and begun anew where they take long, so that others run in between.

In: a head, what is lifted for it. Out: where it will fit first, with devices that agents would prepare. Between two attempts the state is as others know it; what was
found out about nodes that did not change meanwhile is not asked again.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias

import structlog

from apportion.allocator.decision import Decision
from apportion.allocator.nodeanswers import NodeAnswers, Unfinished
from apportion.allocator.reservation import ReservationPlan
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.changednodes import ChangedNodes
from apportion.scheduling.backfill.heads import Head, key_of, members_of
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.planning import plan
from apportion.scheduling.candidates.admissible import Admissible
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.waiting import WaitingDemand

_log = structlog.get_logger()
Lifted: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Lets the state show, within a block, less than what is reserved."""


class Attempts:
    """Plans for one head at a time."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        admissible: Admissible,
        endings: NodeEndings,
        nodes: ChangedNodes,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started."""
        self._snapshot, self._candidates, self._admissible = snapshot, candidates, admissible
        self._endings, self._nodes = endings, nodes
        self._clock, self._now = clock, now
        self.seconds = 0.0
        """How long plans in steps took since somebody set this to 0, without what others did meanwhile."""

    def in_steps(
        self, head: Head, only: frozenset[str] | None, lifted: Lifted, known: Decision | None = None
    ) -> Generator[None, None, ReservationPlan | None]:
        """Return a plan, on the nodes of `only` or on any; None: there is none. Yields between two attempts. `known`: for the first one, as `plan` has it."""
        found = yield from self._in_steps(head, only, lifted, known)
        other = self._otherwise(head, found)
        if other is not None:
            found = yield from self._in_steps(other, only, lifted)
            return found if self._otherwise(other, found) is None else None
        return found

    def _otherwise(self, head: Head, found: ReservationPlan | None) -> Head | None:
        """Return a head as one that does not get what no agent would prepare; None where agents would prepare what a plan gives it."""
        demands = members_of(head)
        try:
            for place in found.places if found is not None else ():
                self._admissible.check(demands[place.member], place.decision)
        except BrokenInput as error:
            less = tuple(self._admissible.otherwise(demand, error) for demand in demands)
            return less[0] if isinstance(head, WaitingDemand) else replace(head, demands=less)
        return None

    def _in_steps(
        self, head: Head, only: frozenset[str] | None, lifted: Lifted, known: Decision | None = None
    ) -> Generator[None, None, ReservationPlan | None]:
        answers, seen = NodeAnswers(), self._nodes.others_end
        while True:
            began = self._clock()
            try:
                return self._attempt(head, only, known, lifted, answers)
            except Unfinished:
                known = None  # others may change what it is about
            finally:
                self.seconds += self._clock() - began
            yield
            self._nodes.follow()
            answers.begin(self._nodes.by_others_since(seen))
            seen = self._nodes.others_end

    def _attempt(
        self,
        head: Head,
        only: frozenset[str] | None,
        known: Decision | None,
        lifted: Lifted,
        answers: NodeAnswers,
    ) -> ReservationPlan | None:
        with self._nodes.put_back(), lifted():
            try:
                return plan(
                    head, self._endings, self._candidates, self._snapshot,
                    now=self._now(), only=only, known=known, answers=answers,
                )  # fmt: skip
            except BrokenInput:
                return None  # it is told when the demand is decided
            except Unfinished:
                raise
            except Exception:  # noqa: BLE001 - whatever it is, it is logged, and nothing is reserved
                _log.exception("reservation.defect", head=key_of(head))
                return None
