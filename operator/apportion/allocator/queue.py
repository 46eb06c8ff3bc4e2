"""allocate_batch() and allocate_queue(): claims that wait together, placed together.

In: a state and demands, equals or in the order of a queue. Out: an answer each, as if they had come one by one in the best
order that was found. Large ones first packs best, and before them those who can use few devices only; small ones first
serves most when not all fit. Bounded, deterministic; the state is afterwards what it was.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import TypeAlias, TypeVar

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.pricing.demandmix import DemandMix, entries
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput

TRIES = 64
"""Swaps tried per order to make room for those that were refused."""

ORDERS = 8
"""Orders tried where not all fit."""

Answer: TypeAlias = Decision | Refusal

_Told = TypeVar("_Told", Answer, Answer | BrokenInput)


def allocate_batch(
    state: State,
    demands: Sequence[Demand],
    *,
    strategy: Strategy = Strategy.LEAST_FRAGMENTATION,
    prefer: Mapping[DeviceId, int] | None = None,
    mix: DemandMix | None = None,
    ladder: Ladder | None = None,
    orders: int = ORDERS,
    tries: int = TRIES,
) -> tuple[Answer, ...]:
    """Serve as many of the demands as can be found to fit together, each on one node, all of its claims or none.

    Demands are equals: one may be refused so that two others are served. `mix`: the demand to keep room for (default:
    the batch itself). `ladder`: as for `allocate`. `orders`: orders tried where not all fit; `tries`: swaps tried per
    order to make room for what was refused. Raises BrokenInput as `allocate` does, for the first demand in order that no
    state could serve.
    """
    terms = _Terms(state, strategy, prefer, mix, ladder)
    alone = [terms.allocate(demand) for demand in demands]
    if mix is None:
        terms = replace(terms, mix=_mix(alone))
    hopeful = _hopeful(alone)
    sizes = _sizes(state, alone)
    small = sorted(hopeful, key=lambda number: (sizes[number], number))
    best: dict[int, Decision] = {}
    for order in islice(_orders(small, _choosing(terms, alone, sizes)), orders):
        with Tentative(state, demands, terms.decide, tries) as attempt:
            attempt.fill(order)
            if tries and len(attempt.placed) < len(hopeful):
                attempt.improve(small)
            if len(attempt.placed) > len(best):
                best = dict(attempt.placed)
        if len(best) == len(hopeful):
            break
    return _answers(terms, demands, alone, best, terms.allocate)


def allocate_queue(
    state: State,
    demands: Sequence[Demand],
    *,
    strategy: Strategy = Strategy.LEAST_FRAGMENTATION,
    prefer: Mapping[DeviceId, int] | None = None,
    mix: DemandMix | None = None,
    ladder: Ladder | None = None,
) -> tuple[Answer | BrokenInput, ...]:
    """Serve those who wait in this order, and more of them where choosing in another order allows it, except in FirstFit.

    Nobody is refused who would be served one by one. `mix`: the demand to keep room for (default: what the state has
    learnt, the queue itself while that is nothing). Raises nothing: whom no state could serve gets the error for an
    answer. Asks some four questions a demand, at most.
    """
    terms = _Terms(state, strategy, prefer, mix, ladder)
    alone = [terms.checked(demand) for demand in demands]
    sound = [answer for answer in alone if not isinstance(answer, BrokenInput)]
    if mix is None and terms.weighs and not state.scorer().outlook.mix:
        terms = replace(terms, mix=_mix(sound))
    hopeful = _hopeful(alone)
    if strategy is Strategy.FIRST_FIT:
        # What upstream would do, so that the two can be compared.
        return _answers(terms, demands, alone, _filled(terms, demands, hopeful), terms.checked)
    sizes = _sizes(state, alone)
    best = _filled(terms, demands, _choosing(terms, alone, sizes))
    if len(best) < len(hopeful):
        # All fit as a rule, so what the queue's own order would do is looked at only here.
        large = sorted(hopeful, key=lambda number: (-sizes[number], -number))
        found = best, _filled(terms, demands, large)
        best = queue = _filled(terms, demands, hopeful)
        for served in found:
            if len(served) > len(best) and queue.keys() <= served.keys():
                best = served
    return _answers(terms, demands, alone, best, terms.checked)


@dataclass(frozen=True, slots=True)
class _Terms:
    """How one demand is decided."""

    state: State
    strategy: Strategy
    prefer: Mapping[DeviceId, int] | None
    mix: DemandMix | None
    ladder: Ladder | None

    @property
    def weighs(self) -> bool:
        """Whether the strategy knows what is worth how much, and which sets of devices there are."""
        return self.strategy is Strategy.LEAST_FRAGMENTATION

    def allocate(self, demand: Demand) -> Answer:
        return allocate(
            self.state,
            demand,
            strategy=self.strategy,
            prefer=self.prefer,
            mix=self.mix,
            ladder=self.ladder,
        )

    def checked(self, demand: Demand) -> Answer | BrokenInput:
        try:
            return self.allocate(demand)
        except BrokenInput as error:
            return error

    def decide(self, demand: Demand) -> Decision | None:
        return decide(
            self.state,
            demand,
            strategy=self.strategy,
            prefer=self.prefer,
            mix=self.mix,
            ladder=self.ladder,
        )


def _mix(answers: Sequence[Answer]) -> DemandMix:
    """Return what these asked for."""
    asked = Counter(answer.asked for answer in answers if answer.asked is not None)
    return tuple(row for meaning, count in asked.items() for row in entries(meaning, count))


def _hopeful(alone: Sequence[object]) -> list[int]:
    return [number for number, answer in enumerate(alone) if isinstance(answer, Decision)]


def _filled(terms: _Terms, demands: Sequence[Demand], order: Sequence[int]) -> dict[int, Decision]:
    """Return what is decided if they come in this order."""
    with Tentative(terms.state, demands, terms.decide) as attempt:
        attempt.fill(order)
        return dict(attempt.placed)


def _answers(
    terms: _Terms,
    demands: Sequence[Demand],
    alone: Sequence[_Told],
    best: Mapping[int, Decision],
    ask: Callable[[Demand], _Told],
) -> tuple[_Told | Answer, ...]:
    """Return the answer of each; what is refused is explained by what stands in the end."""
    found: list[_Told | Answer] = [best.get(number, answer) for number, answer in enumerate(alone)]
    with Tentative(terms.state, demands, terms.decide) as final:
        for number, decision in best.items():
            final.put(number, decision)
        for number in _hopeful(alone):
            if number not in best:
                answer = found[number] = ask(final.beside(number))
                if isinstance(answer, Decision):
                    final.put(number, answer)
    return tuple(found)


def _choosing(terms: _Terms, alone: Sequence[object], sizes: Sequence[Fraction]) -> list[int]:
    """Return the order that packs best: those first who can use the fewest devices, then the largest."""
    supply = terms.state.scorer(terms.mix).supply if terms.weighs else None
    rooms = [_room(supply, answer) if isinstance(answer, Decision) else 0 for answer in alone]
    return sorted(_hopeful(alone), key=lambda number: (rooms[number], -sizes[number], -number))


def _orders(small: Sequence[int], choosing: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield orders to try.

    First those who can use the fewest devices, then the largest, the smallest, the smallest but for one large one.
    """
    yield choosing
    if choosing != small[::-1]:
        yield small[::-1]
    yield small
    for number in small[::-1]:
        yield (number, *(other for other in small if other != number))


def _room(supply: Scarcity | None, answer: Decision) -> int:
    """Return how many free devices the request that has the fewest could use, at most; 0 where that does not matter."""
    if supply is None or answer.asked is None:
        return 0
    rooms = [max(supply.reach(want) for want in slot.wants) for slot in answer.asked.slots]
    return min(rooms, default=0)


def _sizes(state: State, alone: Sequence[object]) -> list[Fraction]:
    return [_size(state, answer) if isinstance(answer, Decision) else Fraction(0) for answer in alone]


def _size(state: State, answer: Decision) -> Fraction:
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
                for counter, amount in group.make.needs[place[1]]
                if group.totals[counter]
            ]
            total += sum(parts, Fraction(0)) / max(len(group.totals), 1)
    return total
