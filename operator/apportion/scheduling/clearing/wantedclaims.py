"""WantedClaims: of stalled claims those without whose devices somebody who waits would be served.

In: the demands that wait, the stalled claims of a node, the allocator's state. Out: claims. A question that needs a long search is made in steps, and
takes turns with the others that do.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain, product
from typing import TypeAlias, TypeVar

import structlog

from apportion.allocator.allocate import catching_up, decide, is_slow
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.terms import Terms
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.pace import Pace

_log = structlog.get_logger()
_ASKED = 8
"""How many demands are asked about a node: the first of the queue, and as many of the others, which take turns."""
_LONGEST = 0.1
"""Seconds in a pass after which no question begins that needs a long search."""
_Asked: TypeAlias = tuple[WaitingDemand, Demand, Terms]
"""Who waits, and what is asked for it about a node."""
T = TypeVar("T")


class WantedClaims:
    """Asks the allocator what it would decide without the devices of claims."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        exclusions: Exclusions,
        clock: Callable[[], float],
        is_evaluated: Callable[[WaitingDemand], bool],
        lifted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`is_evaluated`: whether a demand's costly selectors have been evaluated: only then is the allocator asked about it. `lifted`: the state shows what is held by claims within."""
        self._snapshot = snapshot
        self._candidates = candidates
        self._exclusions = exclusions
        self._clock = clock
        self._is_evaluated = is_evaluated
        self._lifted = lifted
        self._last = ""
        """The demand (key) that was asked last of those behind the first."""
        self._searched = 0.0
        """Seconds for which nodes were searched in this pass."""
        self._slow = 0
        """How many questions needed that so far: those that do take turns."""

    def waiting(self, demands: Iterable[WaitingDemand]) -> Generator[None, None, list[WaitingDemand]]:
        """Begin a pass: return demands that were not served in it, without those that wait behind the others themselves: the first, and those whose turn it is."""
        known, self._searched = tuple(demands), 0.0
        first = yield from self._unserved(known)
        numbers = {demand.key: number for number, demand in enumerate(known)}
        start = numbers.get(self._last, -1) + 1
        others = yield from self._unserved(
            chain(known[start:], known[:start]), {demand.key for demand in first}
        )
        self._last = others[-1].key if others else ""
        return [*first, *others]

    def _unserved(
        self, demands: Iterable[WaitingDemand], but: Collection[str] = ()
    ) -> Generator[None, None, list[WaitingDemand]]:
        """Return the first of these demands that are asked, without some (keys)."""
        found: list[WaitingDemand] = []
        pace = Pace()
        for demand in demands:
            if len(found) == _ASKED:
                break
            if pace.rests():
                yield
            if demand.key not in but and self._is_unserved(demand):
                found.append(demand)
        return found

    def _is_unserved(self, demand: WaitingDemand) -> bool:
        return not any(
            self._snapshot.allocation(claim) is not None or self._exclusions.rests(claim.uid)
            for claim in demand.claims
        ) and self._is_evaluated(demand)

    def of(
        self, node: str, stalled: Sequence[Claim], waiting: Sequence[WaitingDemand]
    ) -> Generator[None, None, list[Claim]]:
        """Return the stalled claims of a node (empty: of several), the longest stalled first, without whose devices one of these is served.

        Yields where others may run; the claims have their devices then.
        """
        quick, slow = list[_Asked](), list[_Asked]()
        for demand in waiting:
            yield
            if (ask := self._ask(demand, node, stalled)) is not None:
                terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
                searches = partial(is_slow, self._snapshot.state, ask, terms)
                (slow if _unless_broken(ask, searches) else quick).append((demand, ask, terms))
        freed = [claim for claim in stalled if self._published(claim)] if quick or slow else []
        for number in range(1, len(freed) + 1):
            yield
            if self.are_as_they_were(freed) and self._is_served(quick, freed[:number]):
                return freed[:number]
        start = self._slow % len(slow) if slow else 0
        for number, each in product(range(1, len(freed) + 1), slow[start:] + slow[:start]):
            if self._searched >= _LONGEST:
                break
            self._slow += 1
            if (yield from self._is_served_after_search(each, freed[:number])):
                return freed[:number]
        return []

    def _is_served(self, asked: Iterable[_Asked], freed: Sequence[Claim]) -> bool:
        """Say whether one of these would be served without these claims."""
        with self._without(freed):
            return any(
                self._serves(ask, terms) for demand, ask, terms in asked if is_current(demand, self._snapshot)
            )

    def _is_served_after_search(self, asked: _Asked, freed: Sequence[Claim]) -> Generator[None, None, bool]:
        """Say the same of one that needs a long search, which is made in steps; no, where something of it changed meanwhile."""
        demand, ask, terms = asked
        state, left = self._snapshot.state, len(ask.nodes or ())
        while is_current(demand, self._snapshot) and self.are_as_they_were(freed):
            began = self._clock()
            with self._without(freed):
                steps = catching_up(state, ask, terms, supposed=True)
                is_paused = _unless_broken(ask, partial(next, steps, None))
                left -= is_paused is False
                ended = is_paused is None or not left
                served = ended and self._serves(ask, terms)
            self._searched += self._clock() - began
            if ended:
                return served
            yield
        return False

    def _serves(self, ask: Demand, terms: Terms) -> bool:
        return bool(_unless_broken(ask, partial(decide, self._snapshot.state, ask, terms)))

    @contextmanager
    def _without(self, claims: Iterable[Claim]) -> Iterator[None]:
        """Let the state show neither what these claims have nor what is held, within a block."""
        state = self._snapshot.state
        with self._lifted():
            for claim in claims:
                state.release(claim.uid)
            try:
                yield
            finally:
                for claim in claims:
                    if claim.allocation is not None:
                        state.hold(claim.uid, claim.allocation.results)

    def are_as_they_were(self, claims: Iterable[Claim]) -> bool:
        """Say whether these claims have not changed since they were looked at."""
        return all(self._snapshot.claims.get(claim.uid) is claim for claim in claims)

    def _ask(self, demand: WaitingDemand, node: str, stalled: Sequence[Claim]) -> Demand | None:
        """Return what to ask about a node, or about all nodes that reach devices of allocations which name none."""
        if node:
            return self._candidates.on_node(demand, node)
        results = [
            each for claim in stalled if claim.allocation is not None for each in claim.allocation.results
        ]
        nodes = {name for each in results for name in self._snapshot.state.nodes_of(each.device)}
        return self._candidates.ask_with_victims(demand, self._candidates.capacity(), nodes)

    def _published(self, claim: Claim) -> bool:
        """Say whether slices have all of its devices: what a withdrawn device consumes is known only while it is held."""
        results = claim.allocation.results if claim.allocation is not None else ()
        return all(self._snapshot.devices.device(result.device) is not None for result in results)


def _unless_broken(ask: Demand, answer: Callable[[], T]) -> T | None:
    """Return an answer about a demand; None, where deciding breaks down: that is met by the walk through the queue, too."""
    try:
        return answer()
    except BrokenInput:
        return None
    except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
        _log.exception("stalled.defect", claims=[claim.key for claim in ask.claims])
        return None
