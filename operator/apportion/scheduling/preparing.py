"""Preparing: costly selectors are evaluated before a demand is decided, a bit of each namespace in turn.

In: demands that wait. Out: whether a demand may be decided, has to wait for evaluations, or costs too much;
and steps of work for the time when all others are decided. The verdict about a query that was evaluated
holds until slices change; that about one that costs too much also outlasts them for some minutes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from apportion.allocator.preparation import Preparation, Work, is_costly
from apportion.allocator.rules.query import NamedQuery, NodeError, Query
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.candidates import TOLERATIONS
from apportion.scheduling.waiting import WaitingDemand

_log = structlog.get_logger()
MOST_VERDICTS = 4096
"""Verdicts kept, the oldest leaves; without one, kept results of its selectors give it again."""
_HELD = 300.0
"""Seconds for which a query that costs too much is not looked at again."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    slices: int
    """The slice epoch that it was made in."""
    number: int
    """The pass that it was made in."""
    excess: NodeError | None
    until: float


class Preparing:
    """Verdicts about costly queries, and the evaluations under way: one query for each namespace."""

    def __init__(self, snapshot: Snapshot, *, budget: int, clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._budget = budget
        self._clock = clock
        self._number = 0
        self._verdicts: OrderedDict[Query, _Verdict] = OrderedDict()
        self._wanted: dict[str, dict[Query, None]] = {}
        """Queries to evaluate, by namespace, in the order in which they were asked for."""
        self._running: dict[str, tuple[Preparation, Iterator[Work | None]]] = {}

    def begin(self, number: int) -> None:
        """Start the pass of this number."""
        self._number = number
        self._wanted = {}

    def waits(self, demand: WaitingDemand) -> bool:
        """Say whether selectors of a demand must be evaluated first; raises BrokenInput if they cost too much."""
        state = self._snapshot.state
        try:
            query = state.queries.of(demand.claims, state.classes, state.features, TOLERATIONS)
            if not is_costly(state, query):
                return False
        except Exception:  # noqa: BLE001 - whatever it is, deciding meets it too, and reports it
            return False
        verdict = self._verdicts.get(query)
        if verdict is not None:
            current = verdict.slices == self._snapshot.slice_epoch or verdict.number == self._number
            if verdict.excess is not None and (current or self._clock() < verdict.until):
                raise verdict.excess.as_broken_input(NamedQuery.of(query, demand.claims).names)
            if current:
                return False
        self._wanted.setdefault(demand.claims[0].namespace, {})[query] = None
        return True

    @property
    def idle(self) -> bool:
        """Whether nobody waits for evaluations."""
        return not self._wanted

    def steps(self) -> Iterator[Work | None]:
        """Evaluate, one device for each namespace in turn; yields as `Preparation.steps` does."""
        self._running = {
            namespace: running
            for namespace, running in self._running.items()
            if running[0].query in self._wanted.get(namespace, ())
        }
        while self._wanted:
            for namespace in list(self._wanted):
                if namespace not in self._running:
                    query = next(iter(self._wanted[namespace]))
                    preparation = Preparation(self._snapshot.state, query, self._budget)
                    self._running[namespace] = preparation, preparation.steps()
                preparation, steps = self._running[namespace]
                try:
                    yield next(steps)
                except StopIteration:
                    self._done(namespace, preparation)
                except Exception:  # noqa: BLE001 - whatever it is, deciding meets it too, and reports it
                    _log.exception("preparation.defect", namespace=namespace)
                    self._done(namespace, preparation)

    def _done(self, namespace: str, preparation: Preparation) -> None:
        del self._running[namespace]
        wanted = self._wanted[namespace]
        wanted.pop(preparation.query, None)
        if not wanted:
            del self._wanted[namespace]
        self._verdicts[preparation.query] = _Verdict(
            self._snapshot.slice_epoch, self._number, preparation.excess, self._clock() + _HELD
        )
        self._verdicts.move_to_end(preparation.query)
        if len(self._verdicts) > MOST_VERDICTS:
            self._verdicts.popitem(last=False)
