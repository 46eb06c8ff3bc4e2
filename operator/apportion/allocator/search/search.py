"""The search on one node: devices for every slot, in order, or the proof that there are none.

In: options per slot. Out: picks, "none", or "budget". Depth first in the order of the slots, as upstream does, so that
the first solution in device order is upstream's. What upstream does not do: devices that are alike are tried once,
states that failed are remembered in a form that likeness does not change, and counts are compared before and, after
the first dead end, during the search. None of this removes a solution.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.nodeerror import ErrorCause, NodeError
from apportion.allocator.rules.query import MOST_RESULTS, Query
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.feasibility import CountedRequest, possible
from apportion.allocator.search.interchangeable import Interchangeability
from apportion.allocator.search.partial import OutOfBudget, PartialSolution, Pick

__all__ = ["STEPS", "OutOfBudget", "Pick", "Search"]

STEPS = 20_000
"""Devices tried on one node before the search gives up; about 0.2 s."""


class Order(Protocol):
    """In which order a strategy tries devices."""

    def order(self, search: "Search", candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask, the one to try first first."""
        ...


class Search(PartialSolution):
    """One search on one node. `run` may be called once."""

    def __init__(
        self,
        view: NodeView,
        query: Query,
        candidate_rows: list[list[Candidates]],
        order: Order,
        *,
        steps: int = STEPS,
        prefer: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(view, query, candidate_rows, steps)
        self.prefer = prefer or {}
        self._order = order
        self._likeness: Interchangeability | None = None
        self._dead: set[object] = set()
        # Where an error may end the search, only upstream's order says whether it is met before a solution.
        self.exact_order = any(
            candidates.errors or (candidates.everything is not None and candidates.alternative.constraints)
            for row in candidate_rows
            for candidates in row
        )

    def run(self) -> tuple[Pick, ...] | None:
        """Return the picks, or None if there is no solution; raises NodeError and OutOfBudget."""
        if not self.exact_order and not self._hopeful(0, narrow=True):
            return None
        return tuple(self.picks) if self._slot(0) else None

    def _slot(self, number: int) -> bool:
        if number == len(self.candidate_rows):
            return True
        mark = self._mark(number)
        if mark is not None and mark in self._dead:
            return False
        claim = self.query.slots[number].claim
        for candidates in self.candidate_rows[number]:
            if self.counts.get(claim, 0) + candidates.count > MOST_RESULTS:
                continue
            if candidates.everything is not None:
                done = self._all(number, candidates, claim)
            else:
                done = self._pick(number, candidates, claim, candidates.count, -1)
            if done:
                return True
        mark = self._mark(number)
        if mark is not None:
            self._dead.add(mark)
        return False

    def _pick(self, number: int, candidates: Candidates, claim: int, left: int, allowed: int) -> bool:
        """Choose `left` more devices out of `allowed` for the slot, then go on with the next one."""
        if left == 0:
            return self._slot(number + 1)
        mask = self.open(candidates, claim) & allowed
        if self.exact_order:
            return self._pick_exactly(number, candidates, claim, left, (mask, allowed))
        if mask.bit_count() < left:
            return False
        failed: set[object] = set()
        for index in self._order.order(self, candidates, mask):
            if failed and self._like(index) in failed:
                allowed &= ~(1 << index)
                continue
            if not self.take(number, candidates, claim, index):
                continue
            allowed &= ~(1 << index)
            hopeful = self._likeness is None or self._hopeful(number, (candidates, left - 1, allowed))
            if hopeful and self._pick(number, candidates, claim, left - 1, allowed):
                return True
            self.give_back(candidates, claim, index)
            failed.add(self._like(index))
        return False

    def _pick_exactly(
        self, number: int, candidates: Candidates, claim: int, left: int, masks: tuple[int, int]
    ) -> bool:
        """Do the same in upstream's order, without short cuts, so that an error is met exactly when upstream meets it."""
        mask, allowed = masks
        busy = (
            self.taken_by.get(claim, 0) if candidates.alternative.admin else self.taken | self.view.exclusive
        )
        flawed = sum(1 << index for index in candidates.errors) & allowed & ~busy
        for index in bits(mask | flawed):
            if flawed >> index & 1:
                raise NodeError(number, candidates.number, candidates.errors[index])
            if not self.take(number, candidates, claim, index):
                continue
            above = allowed & -(2 << index)
            if self._pick(number, candidates, claim, left - 1, above):
                return True
            self.give_back(candidates, claim, index)
        return False

    def _all(self, number: int, candidates: Candidates, claim: int) -> bool:
        """Take every device of mode All, then go on with the next slot."""
        devices = candidates.everything or ()
        done: list[int] = []
        for index in devices:
            if not self.before_rules(candidates, claim) >> index & 1:
                break
            if not all(
                self.constraints[constraint].mask >> index & 1
                for constraint in candidates.alternative.constraints
            ):
                where = self.view.devices[index].id
                reason = f"cannot add device {where} because a claim constraint would not be satisfied"
                raise NodeError(number, candidates.number, ErrorCause("request", reason))
            if not self.take(number, candidates, claim, index):
                break
            done.append(index)
        if devices and len(done) == len(devices) and self._slot(number + 1):
            return True
        for index in reversed(done):
            self.give_back(candidates, claim, index)
        return False

    def _like(self, index: int) -> object:
        if self._likeness is None:
            self._likeness = Interchangeability(self)
        return self._likeness.of(index)

    def _mark(self, number: int) -> object:
        """Return what the rest of the search depends on; None before the first dead end, when nobody asks."""
        if self._likeness is None or self.exact_order:
            return None
        return number, tuple(sorted(self.counts.items())), self._likeness.state()

    def _hopeful(
        self, number: int, current: tuple[Candidates, int, int] | None = None, *, narrow: bool = False
    ) -> bool:
        """Compare counts: False only if the slots from `number` on cannot be served."""
        asks = []
        first = number
        if current is not None:
            candidates, left, allowed = current
            claim = self.query.slots[number].claim
            if left:
                asks.append(
                    CountedRequest.of(self.open(candidates, claim) & allowed, left, (candidates,), self.view)
                )
            first = number + 1
        for later in range(first, len(self.candidate_rows)):
            row = self.candidate_rows[later]
            if any(candidates.everything is not None for candidates in row):
                continue
            claim = self.query.slots[later].claim
            masks = [(self.open(candidates, claim), candidates) for candidates in row]
            able = [(mask, candidates) for mask, candidates in masks if mask.bit_count() >= candidates.count]
            if not able:
                return False
            union = 0
            for mask, _ in able:
                union |= mask
            asks.append(
                CountedRequest.of(
                    union,
                    min(candidates.count for _, candidates in able),
                    [candidates for _, candidates in able],
                    self.view,
                )
            )
        return possible(asks, self.constraints, self.view, self.states, narrow=narrow)
