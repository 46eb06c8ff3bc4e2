"""Asking: nodes are searched one at a time before the allocator is asked for a decision, and others run in between.

In: what is to be asked of the allocator. Out: the same, after the searches; asked anew if something changed meanwhile.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeAlias, TypeVar

from apportion.allocator.allocate import catching_up, is_slow
from apportion.allocator.demand import Demand
from apportion.allocator.terms import Terms
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.candidates.searchturns import SearchStopped, SearchTurns
from apportion.scheduling.demands.waiting import WaitingDemand, is_current

Result = TypeVar("Result")
Lifted: TypeAlias = Callable[[], AbstractContextManager[object]]
"""Lets the state show, within a block, less than what is held."""


class ChangedMeanwhile(Exception):  # noqa: N818 - it is no error: the next pass decides
    """The demand changed while others ran."""


class Asking:
    """Asks, and searches what the answer needs."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        turns: SearchTurns,
        retaken: Callable[[], None] = lambda: None,
    ) -> None:
        """`retaken` is called where devices came into use, or free, meanwhile."""
        self._turns = turns
        self._retaken = retaken
        self._snapshot = snapshot
        self._candidates = candidates
        self._lifts = 0
        """By how much searches themselves have moved the state's moment."""

    def about(
        self,
        demand: WaitingDemand,
        terms: Terms,
        ask: Callable[[], Demand | str],
        ahead: Generator[None, None, None] | None = None,
    ) -> Generator[None, None, Demand | str]:
        """Return what `ask` does for a demand, or for a part of it, after the search. Raises ChangedMeanwhile and SearchStopped.

        `ahead`: what is done in steps before that.
        """
        if ahead is not None:
            yield from self.unchanged(demand, ahead)
        asked = ask()
        return (
            (yield from self.after_search(demand, asked, terms, ask)) if isinstance(asked, Demand) else asked
        )

    def unchanged(
        self, waiting: WaitingDemand, steps: Generator[None, None, Result]
    ) -> Generator[None, None, Result]:
        """Return the result of steps that are about the demand alone. Raises ChangedMeanwhile."""
        moment = self._moment
        result = yield from steps
        if self._moment != moment:
            self._retaken()
        if not is_current(waiting, self._snapshot):
            raise ChangedMeanwhile(waiting.key)
        return result

    def search(
        self, waiting: WaitingDemand, asked: Demand, terms: Terms, lifted: Lifted | None = None
    ) -> Generator[None, None, bool]:
        """Search the nodes that the allocator will search for a demand; yields after each. Says whether something changed meanwhile.

        The room of nodes is read anew then. `lifted`: within it the allocator will be asked, about a few nodes; others see what is held.
        Raises SearchStopped where the next walk goes on.
        """
        before, moment = self.seen(), self._moment
        stopped: SearchStopped | None = None
        try:
            if is_slow(self._snapshot.state, asked, terms):
                steps = (
                    self._catching_up(asked, terms) if lifted is None else self._under(lifted, asked, terms)
                )
                yield from self._turns.steps(waiting.key, waiting.claims[0].namespace, steps)
        except SearchStopped as error:
            stopped = error
        except BrokenInput:
            pass  # met again when the allocator is asked
        changed = self.seen() != before
        if changed:
            yield from self._candidates.reading()
        if self._moment != moment:
            self._retaken()
        if stopped is not None:
            raise stopped
        return changed

    @property
    def _moment(self) -> int:
        """The state's moment, as if no search had moved it."""
        return self._snapshot.state.moment - self._lifts

    def _catching_up(self, asked: Demand, terms: Terms) -> Iterator[bool]:
        return catching_up(self._snapshot.state, asked, terms, prefer=self._candidates.idle)

    def _under(self, lifted: Lifted, asked: Demand, terms: Terms) -> Iterator[None]:
        """Search as `catching_up` does; between two steps nothing is lifted, so that each begins anew with what was kept of those before.

        Of a ranking by node nothing is kept then: the rest is for who asks.
        """
        left = len(asked.nodes or self._snapshot.state.names())
        while left:
            before = self._snapshot.state.moment
            with lifted():
                is_paused = next(self._catching_up(asked, terms), None)
            self._lifts += self._snapshot.state.moment - before
            if is_paused is None:
                return
            left -= not is_paused
            yield

    def about_less(
        self, waiting: WaitingDemand, less: Demand, terms: Terms, ask: Callable[[], Demand | str]
    ) -> Generator[None, None, Demand | None]:
        """Search for less than what `ask` said. Return it, on those of its nodes that `ask` names after the search; None: it names none of them.

        Raises ChangedMeanwhile and SearchStopped.
        """
        now = yield from self.after_search(waiting, less, terms, ask)
        if now is less:
            return less
        if isinstance(now, str):
            return None
        nodes = (now.nodes or frozenset()) & (less.nodes or frozenset())
        return replace(now, claims=less.claims, nodes=nodes) if nodes else None

    def after_search(
        self,
        waiting: WaitingDemand,
        asked: Demand,
        terms: Terms,
        ask: Callable[[], Demand | str],
        lifted: Lifted | None = None,
    ) -> Generator[None, None, Demand | str]:
        """Return what is asked after its nodes were searched: the same, or what `ask` says then if something changed meanwhile.

        `lifted`: as `search` has it. Raises ChangedMeanwhile and SearchStopped.
        """
        if not (yield from self.search(waiting, asked, terms, lifted)):
            return asked
        if not is_current(waiting, self._snapshot):
            raise ChangedMeanwhile(waiting.key)
        return ask()

    def undisturbed(self, steps: Generator[None, None, Result]) -> Generator[None, None, Result | None]:
        """Return the result of steps that hold only as long as nothing changes; yields after each. None: something changed meanwhile."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            before = *self.seen(), self._snapshot.state.moment
            yield
            if (*self.seen(), self._snapshot.state.moment) != before:
                return None

    def seen(self) -> tuple[int, ...]:
        """Return what grows whenever watches show something that counts."""
        changes = self._snapshot.changes
        return changes.hosts.end, changes.pods.end, changes.claims.end, self._snapshot.retry_epoch
