"""Preparing: long selectors are compiled and costly ones evaluated before a demand is decided, a bit of each namespace in turn.

In: demands that wait. Out: whether a demand may be decided, has to wait for evaluations, or costs too much;
and steps of work that are done beside the passes (`evaluate`). The verdict about a query that was evaluated
holds until slices change, or results of its selectors are forgotten; that about one that costs too much also outlasts them for some minutes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import ReferenceType, ref

import structlog

from apportion.allocator.preparation import Preparation, Work, costly_texts, is_costly, is_long
from apportion.allocator.rules.query import NamedQuery, NodeError, Query
from apportion.allocator.rules.selectors import SelectorResults
from apportion.cluster.snapshot import Snapshot
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.candidates import TOLERATIONS
from apportion.scheduling.demands.waiting import WaitingDemand

_log = structlog.get_logger()
MOST_VERDICTS = 4096
"""Verdicts kept, the oldest leaves; without one, kept results of its selectors give it again."""
_HELD = 300.0
"""Seconds for which a query that costs too much is not looked at again."""
_SLICE = 0.01
"""Seconds of evaluations after which others run; one evaluation is not interrupted."""
_OTHERS = 1, 9
"""Seconds that others get for each second of evaluations: when there is no other work, and when there is."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    slices: int
    """The slice epoch that it was made in."""
    number: int
    """The pass that it was made in."""
    excess: NodeError | None
    until: float
    results: tuple[ReferenceType[SelectorResults], ...] = ()
    """What was evaluated, which others' selectors may have displaced since."""


class Preparing:
    """Verdicts about costly queries, and the evaluations under way: one query for each namespace."""

    def __init__(
        self, snapshot: Snapshot, *, budget: int, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """`wake` is called when there is a verdict."""
        self._snapshot = snapshot
        self._budget = budget
        self._clock = clock
        self._wake = wake
        self._number = 0
        self._verdicts: OrderedDict[Query, _Verdict] = OrderedDict()
        self._wanted: dict[str, dict[Query, None]] = {}
        """Queries to evaluate, by namespace, in the order in which they were asked for."""
        self._asked: dict[str, dict[Query, None]] = {}
        """Those that this pass asked for."""
        self.asked = asyncio.Event()
        """Set while there are queries to evaluate."""
        self._running: dict[str, tuple[Preparation, Iterator[Work | None]]] = {}

    def begin(self, number: int) -> None:
        """Start the pass of this number."""
        self._number = number
        self._asked = {}

    def end(self) -> None:
        """End a pass that reached all demands: what it did not ask for is not evaluated any more."""
        self._wanted = self._asked
        if not self._wanted:
            self.asked.clear()

    def waits(self, demand: WaitingDemand) -> bool:
        """Say whether selectors of a demand must be compiled or evaluated first; raises BrokenInput if they cost too much."""
        state = self._snapshot.state
        try:
            query = state.queries.of(demand.asked, state.classes, state.features, TOLERATIONS)
            if not (is_long(state, query) or is_costly(state, query)):
                return False
        except Exception:  # noqa: BLE001 - whatever it is, deciding meets it too, and reports it
            return False
        verdict = self._verdicts.get(query)
        if verdict is not None:
            # What was evaluated since the former pass counts, however often slices change.
            kept = verdict.slices == self._snapshot.slice_epoch and self._are_kept(query, verdict)
            current = kept or self._number - verdict.number <= 1
            if verdict.excess is not None and (current or self._clock() < verdict.until):
                raise verdict.excess.as_broken_input(NamedQuery.of(query, demand.asked).names)
            if current:
                return False
        for queries in (self._wanted, self._asked):
            queries.setdefault(demand.claims[0].namespace, {})[query] = None
        self.asked.set()
        return True

    def _are_kept(self, query: Query, verdict: _Verdict) -> bool:
        """Say whether the results of a query's costly selectors are those of the verdict: else deciding would evaluate all anew, at once."""
        known = self._costly(query) if verdict.excess is None else ()
        return all(each() is found for each, found in zip(verdict.results, known, strict=False))

    def _costly(self, query: Query) -> list[SelectorResults]:
        state = self._snapshot.state
        return [state.selectors(text) for text in sorted(costly_texts(state, query))]

    def is_done(self, demand: WaitingDemand) -> bool:
        """Say whether no selector of a demand is still to be evaluated, or costs too much: only then may others than the walk ask the allocator about it."""
        try:
            return not self.waits(demand)
        except BrokenInput:
            return False

    def is_awaited(self, demand: WaitingDemand) -> bool:
        """Say whether selectors of a demand are still to be evaluated; of one that costs too much they are not."""
        try:
            return self.waits(demand)
        except BrokenInput:
            return False

    def steps(self) -> Iterator[Work | None]:
        """Evaluate, one device for each namespace in turn; yields as `Preparation.steps` does."""
        while self._wanted:
            for namespace in self._running.keys() - self._wanted.keys():
                del self._running[namespace]
            for namespace in list(self._wanted):
                queries = self._wanted.get(namespace, {})
                if namespace not in self._running or self._running[namespace][0].query not in queries:
                    if not queries:
                        continue
                    preparation = Preparation(self._snapshot.state, next(iter(queries)), self._budget)
                    self._running[namespace] = preparation, preparation.steps()
                preparation, steps = self._running[namespace]
                try:
                    yield next(steps)
                except StopIteration:
                    self._done(namespace, preparation)
                except Exception:  # noqa: BLE001 - whatever it is, deciding meets it too, and reports it
                    _log.exception("preparation.defect", namespace=namespace)
                    self._done(namespace, preparation)
        self.asked.clear()

    def _done(self, namespace: str, preparation: Preparation) -> None:
        del self._running[namespace]
        for asked in (self._wanted, self._asked):
            queries = asked.get(namespace, {})
            queries.pop(preparation.query, None)
            if not queries:
                asked.pop(namespace, None)
        self._verdicts[preparation.query] = _Verdict(
            self._snapshot.slice_epoch,
            self._number,
            preparation.excess,
            self._clock() + _HELD,
            tuple(map(ref, self._costly(preparation.query))),
        )
        self._verdicts.move_to_end(preparation.query)
        if len(self._verdicts) > MOST_VERDICTS:
            self._verdicts.popitem(last=False)
        self._wake()


async def evaluate(preparing: Preparing, *, clock: Callable[[], float], pressing: Callable[[], bool]) -> None:
    """Evaluate what passes ask for, until cancelled; `pressing` says whether there is other work.

    An evaluation that may take long runs in a thread. It slows all else down nevertheless, so others get most of the time.
    """
    while True:
        await preparing.asked.wait()
        began = clock()
        for work in preparing.steps():
            if work is not None:
                await asyncio.to_thread(work)
            elif clock() - began < _SLICE:
                continue
            await asyncio.sleep((clock() - began) * _OTHERS[pressing()])
            began = clock()
