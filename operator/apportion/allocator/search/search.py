"""Search: devices for every slot on one node, or the proof that there is no solution.

In: a view, a query and its candidates. Out: picks. The search is depth first in the order of the slots like upstream's, so that the
first solution in device order is upstream's. In addition, only one of interchangeable devices is tried, failed states
are kept under keys equal for interchangeable devices, and counts are compared (`feasibility`) before the search and, after
the first dead end, in each step. None of this removes a solution.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.finished import finished
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import MOST_RESULTS, ErrorCause, NodeError, Query
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.feasibility import Feasibility
from apportion.allocator.search.interchangeable import Interchangeability
from apportion.allocator.search.outcome import Solved
from apportion.allocator.search.partial import LOOKS, OutOfBudget, PartialSolution, Pick
from apportion.allocator.search.searchbudget import SLICE, STEPS

__all__ = ["Call", "OutOfBudget", "Pick", "Search"]

LOOKS_TO_ORDER = 16
"""What it takes to order one device, in looks at a mask."""
LOOKS_TO_PRICE = 256
"""What it takes more to order a device to share, of which a strategy may compare prices."""
LOOKS_FOR_KEY = 8
"""What the key of a state takes for each counter group."""

Call: TypeAlias = Iterator["Call"]
"""Part of a search, which yields the parts that it calls."""


class SearchStrategy(Protocol):
    """The members of a strategy that a search reads."""

    @property
    def scans(self) -> bool:
        """Whether the best solution is wanted, not upstream's first one."""
        ...

    def order(self, search: "Search", candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask in the order to try them."""
        ...

    def finish(
        self, search: "Search", ranks: tuple[int, ...], picks: tuple[Pick, ...]
    ) -> Generator[None, None, Solved]:
        """Return the outcome of a search that found these picks; yields as `Search.slices` does."""
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
        self._found = False
        self._uncounted = 0
        """Looks at masks that count for the pauses and not for the steps, which a search without dead ends needs for its devices."""
        # Where an error can end the search, upstream's order decides whether it is met before a solution.
        self.exact_order = any(candidates.may_end for row in candidate_rows for candidates in row)

    @cached_property
    def _feasibility(self) -> Feasibility:
        return Feasibility(self)

    def run(self) -> tuple[Pick, ...] | None:
        """Return the picks, or None if there is no solution. Raises NodeError and OutOfBudget."""
        return finished(self.slices())

    def slices(self) -> Generator[None, None, tuple[Pick, ...] | None]:
        """Do what `run` does; yields after what takes as long as `SLICE` steps."""
        if not self.exact_order and not self._feasibility.possible(0, narrow=True):
            return None
        yield from self._called(self._slot(0))
        return tuple(self.picks) if self._found else None

    @property
    def work_left(self) -> int:
        """Steps that may still be done, less the looks that do not count for them; may be negative."""
        return self._left - self._uncounted // LOOKS

    def _called(self, first: Call) -> Generator[None, None, None]:
        """Do the calls of a search; yields as `slices` does."""
        # A stack of its own, so that a search can pause, and be deeper than the interpreter's.
        calls, pause = [first], self.work_left - SLICE
        while calls:
            call = next(calls[-1], None)
            if call is None:
                calls.pop()
            else:
                calls.append(call)
            if self._left - self._uncounted // LOOKS < pause:
                pause = self.work_left - SLICE
                yield

    # Each of these yields the calls that it makes, and has `_found` say how the last one ended.

    def _slot(self, number: int) -> Call:
        if number == len(self.candidate_rows):
            self._found = True
            return
        key = self._state_key(number)
        if key is not None and key in self._dead_ends:
            return
        claim = self.query.slots[number].claim
        for candidates in self.candidate_rows[number]:
            if self.counts.get(claim, 0) + candidates.count > MOST_RESULTS:
                continue
            if candidates.everything is not None:
                yield self._all(number, candidates, claim)
            else:
                yield self._pick(number, candidates, claim, candidates.count, -1)
            if self._found:
                return
        if key is None:
            key = self._state_key(number)
        if key is not None:
            self._dead_ends.add(key)

    def _pick(self, number: int, candidates: Candidates, claim: int, left: int, allowed: int) -> Call:
        """Choose `left` more devices of `allowed` for the slot, then search the next slot."""
        if left == 0:
            yield self._slot(number + 1)
            return
        mask = self.open(candidates, claim) & allowed
        if self.exact_order:
            yield self._pick_exactly(number, candidates, claim, left, (mask, allowed))
            return
        if mask.bit_count() < left:
            return
        failed: set[object] = set()
        if self._interchangeability is not None:
            self.spend(LOOKS_TO_ORDER * mask.bit_count())
        for index in self._in_order(candidates, mask):
            if failed and self._interchange_key(index) in failed:
                allowed &= ~(1 << index)
                continue
            if not self.take(number, candidates, claim, index):
                continue
            allowed &= ~(1 << index)
            if self._interchangeability is None or self._is_feasible(number, (candidates, left - 1, allowed)):
                yield self._pick(number, candidates, claim, left - 1, allowed)
                if self._found:
                    return
            self.give_back(candidates, claim, index)
            failed.add(self._interchange_key(index))

    def _in_order(self, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask in the strategy's order."""
        self._uncounted += (
            LOOKS_TO_ORDER * mask.bit_count() + LOOKS_TO_PRICE * (mask & self.view.shareable).bit_count()
        )
        return self._order(self, candidates, mask)

    def _is_feasible(self, number: int, current: tuple[Candidates, int, int]) -> bool:
        self._feasibility.looked = 0
        found = self._feasibility.possible(number, current)
        self.spend(self._feasibility.looked)
        return found

    def _pick_exactly(
        self, number: int, candidates: Candidates, claim: int, left: int, masks: tuple[int, int]
    ) -> Call:
        """Do the same in upstream's order without skipping a device, so that an error is met exactly where upstream meets it."""
        mask, allowed = masks
        busy = (
            self.taken_by.get(claim, 0) if candidates.alternative.admin else self.taken | self.view.exclusive
        )
        failing = candidates.failing & allowed & ~busy
        for index in bits(mask | failing):
            if failing >> index & 1:
                raise NodeError(number, candidates.number, candidates.errors[index])
            if not self.take(number, candidates, claim, index):
                continue
            above = allowed & -(2 << index)
            yield self._pick(number, candidates, claim, left - 1, above)
            if self._found:
                return
            self.give_back(candidates, claim, index)

    def _all(self, number: int, candidates: Candidates, claim: int) -> Call:
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
        if devices and len(done) == len(devices):
            yield self._slot(number + 1)
            if self._found:
                return
        for index in reversed(done):
            self.give_back(candidates, claim, index)

    def _interchange_key(self, index: int) -> object:
        if self._interchangeability is None:
            self._interchangeability = Interchangeability(self)
        return self._interchangeability.of(index)

    def _state_key(self, number: int) -> object:
        """Key of everything that the rest of the search depends on; None before the first dead end."""
        if self._interchangeability is None or self.exact_order:
            return None
        self.spend(LOOKS_FOR_KEY * len(self.view.groups))
        counts = sorted([item for item in self.counts.items() if item[1]])
        return number, tuple(counts), self._interchangeability.state()
