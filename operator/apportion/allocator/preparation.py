"""Preparation: a query's long selectors, compiled, and its costly ones, evaluated on every device, before the query is first asked, within a budget.

Costly is a selector one evaluation of which may take long, on many nodes any that reads what each of them has of its own, as no two share results, and each of a
query that has many.

In: a state, a query. Out: kept results, which the allocator then finds, so that no allocation waits for them; or an Excess,
when the evaluations cost more than the budget. The API bounds what one evaluation may spend (a million units, a fifth of a
second), not how many devices there are. Units are counted as CEL counts them, for each combination of values once, over
nodes in the order of their names: every replica comes to the same verdict.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.rules.query import ErrorCause, NodeError, Query
from apportion.allocator.rules.selectors import Measured, SelectorResults
from apportion.allocator.state import State
from apportion.dra.device import Device

AT_ONCE = 2000
"""Characters of selectors that are compiled while a demand is decided: a twentieth of a second."""
MANY = 48
"""Nodes on which a selector that reads what differs from node to node is evaluated while a demand is decided."""
FEW = 8
"""Selectors of one query that are evaluated on all node classes while a demand is decided."""
FAILED = 200
"""Cost units of an evaluation that fails, and is made twice for the error: 0.04 ms."""
Work: TypeAlias = Callable[[], None]
"""An evaluation that takes long, and that may run in another thread."""


@dataclass(frozen=True, slots=True)
class Place:
    """A selector of a query."""

    slot: int
    alternative: int
    number: int
    """Its position among the selectors of the class and then of the request."""


@dataclass(slots=True)
class Preparation:
    """The evaluations of one query."""

    state: State
    query: Query
    budget: int
    """Cost units that its selectors may spend on all devices of the cluster; 20 million are about four seconds of CPU."""
    spent: int = 0
    """Cost units."""
    excess: NodeError | None = None
    """Set when the budget is exceeded: it blames the selector that spent the most."""
    _costs: Counter[Place] = field(default_factory=Counter)
    _charged: set[tuple[str, object]] = field(default_factory=set)

    def steps(self) -> Iterator[Work | None]:
        """Compile and evaluate; yields after each, or yields an evaluation that the caller has to run before it goes on."""
        for text in self.query.texts:
            self.state.selectors(text)
            yield None
        self.state.settle()
        if len(self.query.texts) > FEW:
            for view in self.state.query_cache.samples():
                for alternative in dict.fromkeys(self.query.alternatives):
                    view.selected(alternative, self.state.selectors)
                    yield None
        costly = costly_texts(self.state, self.query)
        for slot, row in enumerate(self.query.slots):
            for number, alternative in enumerate(row.alternatives):
                texts = (*alternative.class_selectors, *alternative.selectors)
                if not costly.isdisjoint(texts):
                    for name in sorted(self.state.names()):
                        yield from self._on_node(name, texts, partial(Place, slot, number))
                        if self.excess is not None:
                            return

    def _on_node(
        self, name: str, texts: tuple[str, ...], place: Callable[[int], Place]
    ) -> Iterator[Work | None]:
        if name not in self.state.names():
            return  # it went away meanwhile
        view = self.state.view(name)
        for piece, (_, _, visible) in zip(view.slices, view.template.slices, strict=True):
            left = visible
            for number, text in enumerate(texts):
                results = self.state.selectors(text)
                for index in bits(left) if results.costly else ():
                    device = piece.slice.devices[index]
                    measured = yield from self._measured(results, device)
                    piece.learn(text, index, measured)
                    self._charge(text, results.read_of(device), measured[1], place(number))
                    if self.excess is not None:
                        return
                left, failures = piece.matches(text, left, self.state.selectors)
                for index in () if results.costly else bits(sum(failures.values())):
                    read = results.read_of(piece.slice.devices[index])
                    self._charge(text, read, FAILED, place(number))
                    if self.excess is not None:
                        return
            yield None

    @staticmethod
    def _measured(results: SelectorResults, device: Device) -> Generator[Work | None, None, Measured]:
        """Return the kept result and cost of a device with equal values; else evaluate."""
        found = results.measured(device)
        if found is not None:
            return found
        made: list[Measured] = []
        if results.heavy:
            yield lambda: made.append(results.measure(device))
        else:
            made.append(results.measure(device))
        measured = results.keep(device, made[0])
        yield None
        return measured

    def _charge(self, text: str, read: object, cost: int, place: Place) -> None:
        if not cost or (text, read) in self._charged:
            return
        self._charged.add((text, read))
        self.spent += cost
        self._costs[place] += cost
        if self.spent > self.budget:
            self._exceed()

    def _exceed(self) -> None:
        place = max(self._costs, key=lambda each: self._costs[each])
        alternative = self.query.slots[place.slot].alternatives[place.alternative]
        of_class = len(alternative.class_selectors)
        nth = place.number if place.number < of_class else place.number - of_class
        reason = (
            f"selector #{nth} costs too much: on {len(self._charged)} devices that differ the claim's selectors spent"
            f" {self.spent} cost units, and one claim may spend {self.budget}; they are not evaluated any further"
        )
        cause = (
            ErrorCause("class", reason)
            if place.number < of_class
            else ErrorCause("request", reason, f"selectors[{nth}]")
        )
        self.excess = NodeError(place.slot, place.alternative, cause)


def is_long(state: State, query: Query) -> bool:
    """Say whether the query's selectors take long to compile, of which nobody has asked before."""
    fresh = (len(text) for text in query.texts if not state.query_cache.has_compiled(text))
    return sum(fresh) > AT_ONCE


def costly_texts(state: State, query: Query) -> frozenset[str]:
    """Return the selectors of the query that are evaluated on every device beforehand."""
    state.settle()
    many = len(state.names()) > MANY
    return frozenset(
        [
            text
            for text in query.texts
            if state.selectors(text).costly or (many and state.query_cache.reads_own(text))
        ]
    )


def is_costly(state: State, query: Query) -> bool:
    """Say whether selectors of the query are evaluated beforehand."""
    return len(query.texts) > FEW or bool(costly_texts(state, query))
