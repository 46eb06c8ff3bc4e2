"""allocate_batch(): claims that wait together, placed together.

In: a state and demands of equal standing. Out: a decision or a refusal each, as if they had come one by one in the best
order that was found. Large ones first packs best, and before them those who can use few devices only; small ones first
serves most when not all fit; what is refused then gets its place if others can move aside. Bounded in tries,
deterministic; the state is afterwards what it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, islice
from typing import Self

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.host import NONE, Amounts
from apportion.allocator.ladder.ladder import Ladder
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.state import State
from apportion.allocator.worth.mix import Mix, entries
from apportion.allocator.worth.supply import Supply
from apportion.dra.device import DeviceId

TRIES = 64
"""Swaps tried per order to make room for those that were refused."""

ORDERS = 8
"""Orders tried where not all fit."""

DEPTH = 2
"""How many may move aside, one for the other."""

Answer = Decision | Refusal


def allocate_batch(
    state: State,
    demands: Sequence[Demand],
    *,
    strategy: Strategy = Strategy.LEAST_FRAGMENTATION,
    prefer: Mapping[DeviceId, int] | None = None,
    mix: Mix | None = None,
    ladder: Ladder | None = None,
    orders: int = ORDERS,
    tries: int = TRIES,
    queued: bool = False,
) -> tuple[Answer, ...]:
    """Serve as many of the demands as can be found to fit together, each on one node, all of its claims or none.

    Demands are equals: one may be refused so that two others are served; unless they are `queued`: then nobody is refused
    who would be served if they came one by one. `mix`: the demand to keep room for (default: the batch itself).
    `ladder`: as for `allocate`. `orders`: orders tried where not all fit; `tries`: swaps tried per order to make room for
    what was refused. Raises BrokenInput as `allocate` does, for the first demand in order that no
    state could serve.
    """
    alone = [
        allocate(state, demand, strategy=strategy, prefer=prefer, mix=mix, ladder=ladder)
        for demand in demands
    ]
    if mix is None:
        asked = {answer.asked: 0 for answer in alone if answer.asked is not None}
        for answer in alone:
            if answer.asked is not None:
                asked[answer.asked] += 1
        mix = tuple(row for meaning, count in asked.items() for row in entries(meaning, count))

    def ask(demand: Demand) -> Answer:
        return allocate(state, demand, strategy=strategy, prefer=prefer, mix=mix, ladder=ladder)

    hopeful = [number for number, answer in enumerate(alone) if isinstance(answer, Decision)]
    sizes = {number: _size(state, answer) for number, answer in enumerate(alone)}
    supply = state.scorer(mix).supply
    rooms = {number: _room(supply, answer) for number, answer in enumerate(alone)}
    best: dict[int, Decision] = {}
    tied = sorted(hopeful, key=lambda number: (rooms[number], -sizes[number], -number))
    small = sorted(hopeful, key=lambda number: (sizes[number], number))
    served: set[int] = set()
    for order in islice(_orders(small, tied), orders):
        attempt = _Attempt(state, demands, ask, tries)
        with attempt:
            attempt.fill(order)
            if len(attempt.placed) < len(hopeful):
                attempt.improve(small)
            found = dict(attempt.placed)
        if queued and not best and len(found) < len(hopeful):
            # All fit as a rule, so the queue is looked at last.
            with _Attempt(state, demands, ask, 0) as attempt:
                attempt.fill(hopeful)
                best = dict(attempt.placed)
            served = set(best)
        if len(found) > len(best) and served <= found.keys():
            best = found
        if len(best) == len(hopeful):
            break
    final = _Attempt(state, demands, ask, 0)
    with final:
        for number, decision in best.items():
            final.put(number, decision)
        # What is refused is explained by what stands in the end.
        return tuple(
            best[number]
            if number in best
            else (ask(final.beside(number)) if isinstance(alone[number], Decision) else alone[number])
            for number in range(len(demands))
        )


def _orders(small: Sequence[int], tied: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield orders to try.

    First those who can use the fewest devices, then the largest, the smallest, the smallest but for one large one.
    """
    yield tied
    if tied != small[::-1]:
        yield small[::-1]
    yield small
    for number in small[::-1]:
        yield (number, *(other for other in small if other != number))


@dataclass(slots=True)
class _Attempt:
    """Decisions tried out on the state, taken back on leaving."""

    state: State
    demands: Sequence[Demand]
    ask: Callable[[Demand], Answer]
    left: int
    placed: dict[int, Decision] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in tuple(self.placed):
            self.drop(number)

    def fill(self, order: Sequence[int]) -> None:
        """Place what fits, in this order."""
        for number in order:
            self.place(number)

    def place(self, number: int) -> bool:
        answer = self.ask(self.beside(number))
        if isinstance(answer, Decision):
            self.put(number, answer)
            return True
        return False

    def put(self, number: int, decision: Decision) -> None:
        self.placed[number] = decision
        for key, allocation in zip(self._keys(number), decision.allocations, strict=True):
            self.state.hold(key, allocation.results)

    def drop(self, number: int) -> Decision:
        for key in self._keys(number):
            self.state.release(key)
        return self.placed.pop(number)

    def beside(self, number: int) -> Demand:
        """Return the demand beside what the others that are placed take of nodes."""
        demand = self.demands[number]
        if demand.host is None:
            return demand
        taken: dict[str, Amounts] = {}
        for other, decision in self.placed.items():
            host = self.demands[other].host
            if host is not None:
                taken[decision.node] = taken.get(decision.node, NONE).plus(host.asked)
        if not taken:
            return demand
        host = demand.host.beside(taken)
        hosts = self.state.hosts
        full = {
            name
            for name in taken
            if (left := hosts.beside(name, host)) is not None and not left.holds(host.asked)
        }
        nodes = frozenset(self.state.names()) if demand.nodes is None and full else demand.nodes
        return replace(demand, host=host, nodes=nodes - full if nodes is not None else None)

    def _keys(self, number: int) -> list[str]:
        """Return the holders' names: the claims' own UIDs, so that explanations can name them."""
        claims = self.demands[number].claims
        return [claim.uid or f"batch/{number}/{position}" for position, claim in enumerate(claims)]

    def improve(self, order: Sequence[int]) -> None:
        """Try to make room for what was refused."""
        for number in order:
            if number not in self.placed:
                self.squeeze(number, DEPTH, frozenset([number]))

    def squeeze(self, number: int, depth: int, moving: frozenset[int]) -> bool:
        """Place it, with one or two others moving aside if need be; leave everything as it was where that fails."""
        if self.place(number):
            return True
        if not depth:
            return False
        others = [other for other in self.placed if other not in moving]
        rows = [(other,) for other in others] + list(combinations(others, 2))
        return any(self.swap(number, row, depth, moving) for row in rows)

    def swap(self, number: int, row: tuple[int, ...], depth: int, moving: frozenset[int]) -> bool:
        """Place it where these are, and these elsewhere."""
        self.left -= 1
        if self.left < 0:
            return False
        before = dict(self.placed)
        for other in row:
            self.drop(other)
        aside = moving | set(row)
        if self.place(number) and all(self.squeeze(other, depth - 1, aside) for other in row):
            return True
        for other in self.placed.keys() - before.keys() | {
            other for other, decision in before.items() if self.placed.get(other, decision) is not decision
        }:
            self.drop(other)
        for other, decision in before.items():
            if other not in self.placed:
                self.put(other, decision)
        return False


def _room(supply: Supply, answer: Answer) -> int:
    """Return how many free devices the request that has the fewest could use, at most; 0 where that does not matter."""
    if answer.asked is None:
        return 0
    rooms = [max(supply.reach(want) for want in slot.wants) for slot in answer.asked.slots]
    return min(rooms, default=0)


def _size(state: State, answer: Answer) -> Fraction:
    """Return how much of whole devices the demand takes."""
    if isinstance(answer, Refusal):
        return Fraction(0)
    view = state.view(answer.node)
    by_name = {view.id_of(index): index for index in range(len(view.devices))}
    total = Fraction(0)
    for allocation in answer.allocations:
        for result in allocation.results:
            place = view.group_of.get(by_name[result.device])
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
