"""allocate_queue(): demands that wait together, placed together.

In: a state and demands in the order of a queue. Out: an answer each, as if they had come one by one in the best order that
was found. Demands with the fewest usable devices first, then large before small, packs best; small before large serves
most when not all fit. Bounded, deterministic; the state is afterwards what it was.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.pricing.demandmix import DemandMix, entries
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.allocator.terms import Terms
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput

_DEFAULT = Terms(Strategy.LEAST_FRAGMENTATION)

Answer: TypeAlias = Decision | Refusal


def allocate_queue(
    state: State,
    demands: Sequence[Demand],
    terms: Terms = _DEFAULT,
    *,
    prefer: Mapping[DeviceId, int] | None = None,
) -> tuple[Answer | BrokenInput, ...]:
    """Serve demands in this order, and more of them where another order allows it, except in FirstFit.

    No demand is refused that would be served one by one. `terms.mix`: the demand to keep room for (default: what the
    state has learnt, the queue itself while that is nothing). Raises nothing: a demand that no state could serve gets the
    error for an answer. Asks some four questions a demand, at most.
    """
    queue = _Queue(state, demands, terms, prefer)
    alone = [queue.allocate(demand) for demand in demands]
    weighs = terms.strategy is Strategy.LEAST_FRAGMENTATION
    if terms.mix is None and weighs and not state.scorer().prices.mix:
        queue = replace(queue, terms=replace(terms, mix=_mix(alone)))
    servable = _servable(alone)
    if terms.strategy is Strategy.FIRST_FIT:
        # What upstream would do, so that the two can be compared.
        return queue.answers(alone, queue.filled(servable))
    sizes = [size_of(state, answer) if isinstance(answer, Decision) else Fraction(0) for answer in alone]
    scarcity = state.scorer(queue.terms.mix).scarcity if weighs else None
    usable = [_usable(scarcity, answer) if isinstance(answer, Decision) else 0 for answer in alone]
    best = queue.filled(sorted(servable, key=lambda number: (usable[number], -sizes[number], -number)))
    if len(best) < len(servable):
        # All fit as a rule, so what the queue's own order would do is looked at only here.
        large = sorted(servable, key=lambda number: (-sizes[number], -number))
        found = best, queue.filled(large)
        best = one_by_one = queue.filled(servable)
        for served in found:
            if len(served) > len(best) and one_by_one.keys() <= served.keys():
                best = served
    return queue.answers(alone, best)


@dataclass(frozen=True, slots=True)
class _Queue:
    """Demands and how each of them is decided."""

    state: State
    demands: Sequence[Demand]
    terms: Terms
    prefer: Mapping[DeviceId, int] | None

    def allocate(self, demand: Demand) -> Answer | BrokenInput:
        try:
            return allocate(self.state, demand, self.terms, prefer=self.prefer)
        except BrokenInput as error:
            return error

    def decide(self, demand: Demand) -> Decision | None:
        return decide(self.state, demand, self.terms, prefer=self.prefer)

    def filled(self, order: Sequence[int]) -> dict[int, Decision]:
        """Return the decisions when the demands come in this order."""
        with Tentative(self.state, self.demands) as tentative:
            for number in order:
                decision = self.decide(tentative.beside(number))
                if decision is not None:
                    tentative.put(number, decision)
            return dict(tentative.placed)

    def answers(
        self, alone: Sequence[Answer | BrokenInput], best: Mapping[int, Decision]
    ) -> tuple[Answer | BrokenInput, ...]:
        """Return the answer of each; a refusal is explained beside the decisions that stand in the end."""
        found = [best.get(number, answer) for number, answer in enumerate(alone)]
        with Tentative(self.state, self.demands) as final:
            for number, decision in best.items():
                final.put(number, decision)
            for number in _servable(alone):
                if number not in best:
                    answer = found[number] = self.allocate(final.beside(number))
                    if isinstance(answer, Decision):
                        final.put(number, answer)
        return tuple(found)


def _mix(answers: Sequence[Answer | BrokenInput]) -> DemandMix:
    """Return the demand of these answers."""
    asked = Counter(
        answer.asked for answer in answers if not isinstance(answer, BrokenInput) and answer.asked is not None
    )
    return tuple(row for query, count in asked.items() for row in entries(query, count))


def _servable(alone: Sequence[object]) -> list[int]:
    """Return the numbers of the demands that can be served alone."""
    return [number for number, answer in enumerate(alone) if isinstance(answer, Decision)]


def _usable(scarcity: Scarcity | None, answer: Decision) -> int:
    """Return how many free devices the request that has the fewest could use, at most; 0 where that does not matter."""
    if scarcity is None or answer.asked is None:
        return 0
    rooms = [
        max(scarcity.reach(alternative) for alternative in slot.alternatives) for slot in answer.asked.slots
    ]
    return min(rooms, default=0)


def size_of(state: State, answer: Decision) -> Fraction:
    """Return how much of whole devices the demand takes."""
    view = state.view(answer.node)
    total = Fraction(0)
    for allocation in answer.allocations:
        for result in allocation.results:
            index = view.find(result.device)
            place = view.group_of.get(index) if index is not None else None
            if place is None:
                total += 1
                continue
            # The mean over all counters: every slice of memory is one of its own, and full when it is taken.
            group = view.groups[place[0]]
            parts = [
                Fraction(amount, group.totals[counter])
                for counter, amount in group.group_type.needs[place[1]]
                if group.totals[counter]
            ]
            total += sum(parts, Fraction(0)) / max(len(group.totals), 1)
    return total
