"""Attempts: plans of reservations, which are given up and begun anew where they take long, so that others run in between.

In: a head, what is lifted for it. Out: where it will fit first. Between two attempts the state is as others know it; what was found out about
nodes that did not change meanwhile is not asked again.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TypeAlias

import structlog

from apportion.allocator.decision import Decision
from apportion.allocator.nodeanswers import NodeAnswers, Unfinished
from apportion.allocator.reservation import ReservationPlan
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.backfill.changednodes import ChangedNodes
from apportion.scheduling.backfill.heads import Head, key_of
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.planning import plan
from apportion.scheduling.candidates import Candidates

_log = structlog.get_logger()
Lifted: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Lets the state show, within a block, less than what is reserved."""


class Attempts:
    """Plans for one head at a time."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        endings: NodeEndings,
        nodes: ChangedNodes,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """`now`: seconds since 1970, in which pods say when they started."""
        self._snapshot, self._candidates = snapshot, candidates
        self._endings, self._nodes = endings, nodes
        self._clock, self._now = clock, now
        self.seconds = 0.0
        """How long plans in steps took since somebody set this to 0, without what others did meanwhile."""

    def in_steps(
        self, head: Head, only: frozenset[str] | None, lifted: Lifted
    ) -> Generator[None, None, ReservationPlan | None]:
        """Return a plan, on the nodes of `only` or on any; None: there is none. Yields between two attempts."""
        answers, seen = NodeAnswers(), self._nodes.others_end
        while True:
            began = self._clock()
            try:
                return self._attempt(head, only, None, lifted, answers)
            except Unfinished:
                pass
            finally:
                self.seconds += self._clock() - began
            yield
            self._nodes.follow()
            answers.begin(self._nodes.by_others_since(seen))
            seen = self._nodes.others_end

    def at_once(
        self, head: Head, only: frozenset[str], known: Decision | None, lifted: Lifted
    ) -> ReservationPlan | None:
        """Return a plan on a few nodes; `known`: as `plan` has it."""
        return self._attempt(head, only, known, lifted, None)

    def _attempt(
        self,
        head: Head,
        only: frozenset[str] | None,
        known: Decision | None,
        lifted: Lifted,
        answers: NodeAnswers | None,
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
