"""Search: devices for every slot on one node, or the proof that there is no solution.

In: a view and a query. Out: an outcome. The search is depth first in the order of the slots like upstream's, so that the
first solution in device order is upstream's. In addition, only one of interchangeable devices is tried, failed states
are kept under keys equal for interchangeable devices, and counts are compared (`feasibility`) before the search and, after
the first dead end, in each step. None of this removes a solution.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import MOST_RESULTS, ErrorCause, NodeError, Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates, candidate_rows
from apportion.allocator.search.feasibility import Feasibility
from apportion.allocator.search.interchangeable import Interchangeability
from apportion.allocator.search.outcome import BROKEN, EXHAUSTED, NOTHING, Outcome, Solved
from apportion.allocator.search.partial import OutOfBudget, PartialSolution, Pick

__all__ = ["STEPS", "OutOfBudget", "Pick", "Search", "solve"]

STEPS = 20_000
"""Devices tried on one node before the search ends without a result; about 0.2 s, for claims with many alternatives and constraints 2 s."""


class SearchStrategy(Protocol):
    """The members of a strategy that a search reads."""

    @property
    def scans(self) -> bool:
        """Whether the best solution is wanted, not upstream's first one."""
        ...

    def order(self, search: "Search", candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask in the order to try them."""
        ...

    def finish(self, search: "Search", ranks: tuple[int, ...], picks: tuple[Pick, ...]) -> Solved:
        """Return the outcome of a search that found these picks."""
        ...


class Search(PartialSolution):
    """One search on one node. Call `run` only once."""

    def __init__(
        self,
        view: NodeView,
        query: Query,
        candidate_rows: Sequence[Sequence[Candidates]],
        strategy: SearchStrategy,
        *,
        steps: int = STEPS,
        prefer: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(view, query, candidate_rows, steps)
        self.prefer = prefer or {}
        self._order = strategy.order
        self._interchangeability: Interchangeability | None = None
        self._dead_ends: set[object] = set()
        # Where an error can end the search, upstream's order decides whether it is met before a solution.
        self.exact_order = any(
            candidates.errors or (candidates.everything is not None and candidates.alternative.constraints)
            for row in candidate_rows
            for candidates in row
        )

    @cached_property
    def _feasibility(self) -> Feasibility:
        return Feasibility(self)

    def run(self) -> tuple[Pick, ...] | None:
        """Return the picks, or None if there is no solution. Raises NodeError and OutOfBudget."""
        if not self.exact_order and not self._feasibility.possible(0, narrow=True):
            return None
        return tuple(self.picks) if self._slot(0) else None

    def _slot(self, number: int) -> bool:
        if number == len(self.candidate_rows):
            return True
        key = self._state_key(number)
        if key is not None and key in self._dead_ends:
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
        key = self._state_key(number)
        if key is not None:
            self._dead_ends.add(key)
        return False

    def _pick(self, number: int, candidates: Candidates, claim: int, left: int, allowed: int) -> bool:
        """Choose `left` more devices of `allowed` for the slot, then search the next slot."""
        if left == 0:
            return self._slot(number + 1)
        mask = self.open(candidates, claim) & allowed
        if self.exact_order:
            return self._pick_exactly(number, candidates, claim, left, (mask, allowed))
        if mask.bit_count() < left:
            return False
        failed: set[object] = set()
        for index in self._order(self, candidates, mask):
            if failed and self._interchange_key(index) in failed:
                allowed &= ~(1 << index)
                continue
            if not self.take(number, candidates, claim, index):
                continue
            allowed &= ~(1 << index)
            feasible = self._interchangeability is None or self._feasibility.possible(
                number, (candidates, left - 1, allowed)
            )
            if feasible and self._pick(number, candidates, claim, left - 1, allowed):
                return True
            self.give_back(candidates, claim, index)
            failed.add(self._interchange_key(index))
        return False

    def _pick_exactly(
        self, number: int, candidates: Candidates, claim: int, left: int, masks: tuple[int, int]
    ) -> bool:
        """Do the same in upstream's order without skipping a device, so that an error is met exactly where upstream meets it."""
        mask, allowed = masks
        busy = (
            self.taken_by.get(claim, 0) if candidates.alternative.admin else self.taken | self.view.exclusive
        )
        failing = sum(1 << index for index in candidates.errors) & allowed & ~busy
        for index in bits(mask | failing):
            if failing >> index & 1:
                raise NodeError(number, candidates.number, candidates.errors[index])
            if not self.take(number, candidates, claim, index):
                continue
            above = allowed & -(2 << index)
            if self._pick(number, candidates, claim, left - 1, above):
                return True
            self.give_back(candidates, claim, index)
        return False

    def _all(self, number: int, candidates: Candidates, claim: int) -> bool:
        """Take every device of mode All, then search the next slot."""
        devices = candidates.everything or ()
        done: list[int] = []
        for index in devices:
            if not self.before_constraints(candidates, claim) >> index & 1:
                break
            if not all(
                self.constraints[constraint].mask >> index & 1
                for constraint in candidates.alternative.constraints
            ):
                device = self.view.devices[index].id
                reason = f"cannot add device {device} because a claim constraint would not be satisfied"
                raise NodeError(number, candidates.number, ErrorCause("request", reason))
            if not self.take(number, candidates, claim, index):
                break
            done.append(index)
        if devices and len(done) == len(devices) and self._slot(number + 1):
            return True
        for index in reversed(done):
            self.give_back(candidates, claim, index)
        return False

    def _interchange_key(self, index: int) -> object:
        if self._interchangeability is None:
            self._interchangeability = Interchangeability(self)
        return self._interchangeability.of(index)

    def _state_key(self, number: int) -> object:
        """Key of everything that the rest of the search depends on; None before the first dead end."""
        if self._interchangeability is None or self.exact_order:
            return None
        return number, tuple(sorted(self.counts.items())), self._interchangeability.state()


def solve(
    view: NodeView,
    query: Query,
    strategy: SearchStrategy,
    selectors: SelectorLookup,
    *,
    steps: int = STEPS,
    prefer: Mapping[int, int] | None = None,
    excluded: int = 0,
) -> Outcome:
    """Search one node; `steps`: of all searches together that this takes. The outcome depends only on the arguments."""
    try:
        rows = candidate_rows(view, query, selectors, excluded)
        search = Search(view, query, rows, strategy, steps=steps, prefer=prefer)
        picks = search.run()
    except NodeError as error:
        return error
    except OutOfBudget:
        return EXHAUSTED
    if picks is None:
        return NOTHING if view.invalid is None else BROKEN
    if strategy.scans and not search.exact_order:
        search, picks = _with_earliest_alternatives(search, picks, strategy)
    return strategy.finish(search, _ranks(query, picks), picks)


def _with_earliest_alternatives(
    search: Search, picks: tuple[Pick, ...], strategy: SearchStrategy
) -> tuple[Search, tuple[Pick, ...]]:
    """Return a solution in which each slot has the earliest alternative that the slots before it leave possible, as far as the steps left suffice.

    A strategy's first device for one slot may be the only one that serves an early alternative of a later slot.
    """
    left = search.steps_left
    rows = search.candidate_rows
    ranks = _ranks(search.query, picks)
    for number in range(1, len(rows)):
        if not ranks[number]:
            continue
        before = [[row[rank]] for row, rank in zip(rows[:number], ranks, strict=False)]
        earlier = [*before, rows[number][: ranks[number]], *rows[number + 1 :]]
        steps = left // (len(rows) - number)
        narrowed = Search(search.view, search.query, earlier, strategy, steps=steps, prefer=search.prefer)
        try:
            found = narrowed.run()
        except OutOfBudget:
            found = None
        left -= steps - narrowed.steps_left
        if found is not None:
            # Strategies look up alternatives by their number.
            narrowed.candidate_rows = rows
            search, picks, ranks = narrowed, found, _ranks(search.query, found)
    return search, picks


def _ranks(query: Query, picks: Sequence[Pick]) -> tuple[int, ...]:
    """Return the number of each slot's alternative."""
    ranks = dict.fromkeys(range(len(query.slots)), 0) | {pick.slot: pick.alternative for pick in picks}
    return tuple(ranks.values())
