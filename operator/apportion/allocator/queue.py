"""allocate_queue(), queue_steps(): choose devices for all demands of a queue together, in one go or in steps.

In: a state, and demands in queue order. Out: one answer per demand, as if they had been allocated one by one in the best
order found. Orders tried: fewest usable devices first, then large before small; where not all fit, also large before small,
and the queue's own order. Bounded and deterministic; the state is unchanged at the end.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

from apportion.allocator.allocate import allocate, decide, is_slow
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostResources
from apportion.allocator.finished import finished
from apportion.allocator.pricing.demandmix import DemandMix, entries
from apportion.allocator.pricing.scarcity import Scarcity
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.allocator.terms import Terms
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput

LEAST_TOGETHER = 2
COMPARED_AT_ONCE = 1 << 15
"""Nodes that are compared without a pause, half a millionth of a second each."""
MOST_TOGETHER = 64
"""Demands worth placing together: the last of a queue. Those before them are decided one by one, each in its best place."""

_DEFAULT = Terms(Strategy.LEAST_FRAGMENTATION)

Answer: TypeAlias = Decision | Refusal
Answers: TypeAlias = tuple[Answer | BrokenInput, ...]


def allocate_queue(
    state: State,
    demands: Sequence[Demand],
    terms: Terms = _DEFAULT,
    *,
    prefer: Mapping[DeviceId, int] | None = None,
) -> Answers:
    """Serve demands in queue order, or in an order that serves more of them; FirstFit keeps the queue order.

    Serves every demand that the queue order would serve. `terms.mix`: the demand to keep room for (default: the mix that
    the state has learnt; the queue itself while there is none). Raises nothing: a demand that no state could serve has the
    error as its answer. Calls `allocate` or `decide` at most five times per demand.
    """
    return finished(queue_steps(state, demands, terms, prefer=prefer))


def queue_steps(
    state: State,
    demands: Sequence[Demand],
    terms: Terms = _DEFAULT,
    *,
    prefer: Mapping[DeviceId, int] | None = None,
) -> Generator[None, None, Answers]:
    """Do what `allocate_queue` does, and yield after each demand for several devices, and where many nodes were compared.

    Nothing is held on the state then. A caller who finds that it changed meanwhile has to drop the steps: what was decided is out of date.
    """
    queue = _Queue(state, demands, terms, prefer)
    alone: list[Answer | BrokenInput] = []
    for demand in demands:
        alone.append(queue.allocate(demand))
        if queue.rests(demand):
            yield
    has_prices = terms.strategy is Strategy.LEAST_FRAGMENTATION
    if terms.mix is None and has_prices and not state.scorer().prices.mix:
        queue = replace(queue, terms=replace(terms, mix=_mix(alone)))
    servable = _servable(alone)
    if terms.strategy is Strategy.FIRST_FIT:
        # Upstream's behaviour, so that the two can be compared.
        return (yield from queue.answers(alone, (yield from queue.filled(servable))))
    sizes = [size_of(state, answer) if isinstance(answer, Decision) else Fraction(0) for answer in alone]
    scarcity = state.scorer(queue.terms.mix).scarcity if has_prices else None
    usable = [_usable(scarcity, answer) if isinstance(answer, Decision) else 0 for answer in alone]
    few_first = sorted(servable, key=lambda number: (usable[number], -sizes[number], -number))
    best = yield from queue.filled(few_first)
    if len(best) < len(servable):
        # Usually all fit, so the queue's own order is only tried here.
        large = sorted(servable, key=lambda number: (-sizes[number], -number))
        others = best, (yield from queue.filled(large))
        best = one_by_one = yield from queue.filled(servable)
        for served in others:
            if len(served) > len(best) and one_by_one.keys() <= served.keys():
                best = served
    return (yield from queue.answers(alone, best))


@dataclass(slots=True)
class _Compared:
    """What was compared since others ran."""

    nodes: int = 0
    """One by one."""
    requests: set[HostResources] = field(default_factory=set)
    """Of these all nodes were compared."""

    def note(self, demand: Demand, known: int) -> None:
        """Count the nodes that were compared for a demand, of so many that are known."""
        # Where most nodes are allowed their states are compared; and all nodes for a request of cpu and memory that is new.
        if demand.nodes is not None and 2 * len(demand.nodes) <= known:
            self.nodes += len(demand.nodes)
        if demand.host is not None and demand.host.requested not in self.requests:
            self.requests.add(demand.host.requested)
            self.nodes += known


@dataclass(frozen=True, slots=True)
class _Queue:
    """The demands, and the arguments with which each is allocated."""

    state: State
    demands: Sequence[Demand]
    terms: Terms
    prefer: Mapping[DeviceId, int] | None
    compared: _Compared = field(default_factory=_Compared)

    def allocate(self, demand: Demand) -> Answer | BrokenInput:
        try:
            return allocate(self.state, demand, self.terms, prefer=self.prefer)
        except BrokenInput as error:
            return error

    def decide(self, demand: Demand) -> Decision | None:
        return decide(self.state, demand, self.terms, prefer=self.prefer)

    def rests(self, demand: Demand) -> bool:
        """Say whether others may run after this demand."""
        self.compared.note(demand, len(self.state.names()))
        try:
            rests = self.compared.nodes >= COMPARED_AT_ONCE or is_slow(self.state, demand, self.terms)
        except BrokenInput:
            return False
        if rests:
            self.compared.nodes = 0
        return rests

    def filled(self, order: Sequence[int]) -> Generator[None, None, dict[int, Decision]]:
        """Return the decisions if the demands are allocated in this order."""
        return self._placed({}, order, lambda _, demand: self.decide(demand))

    def answers(
        self, alone: Sequence[Answer | BrokenInput], best: Mapping[int, Decision]
    ) -> Generator[None, None, Answers]:
        """Return the answer of each demand; refusals are explained with the final decisions held."""
        answers = [best.get(number, answer) for number, answer in enumerate(alone)]

        def answer(number: int, demand: Demand) -> Answer | BrokenInput:
            answers[number] = found = self.allocate(demand)
            return found

        yield from self._placed(best, [number for number in _servable(alone) if number not in best], answer)
        return tuple(answers)

    def _placed(
        self, placed: Mapping[int, Decision], order: Sequence[int], ask: Callable[[int, Demand], object]
    ) -> Generator[None, None, dict[int, Decision]]:
        """Hold what is placed, and ask about the others in this order, each beside the ones before; returns all that have devices."""
        numbers = deque(order)
        while True:
            with Tentative(self.state, self.demands) as tentative:
                for number, decision in placed.items():
                    tentative.put(number, decision)
                rests = False
                while numbers and not rests:
                    number = numbers.popleft()
                    found = ask(number, tentative.beside(number))
                    if isinstance(found, Decision):
                        tentative.put(number, found)
                    rests = self.rests(self.demands[number])
                placed = dict(tentative.placed)
            if not numbers:
                return placed
            yield


def _mix(answers: Sequence[Answer | BrokenInput]) -> DemandMix:
    """Return the demand mix of these answers."""
    asked = Counter(
        answer.asked for answer in answers if not isinstance(answer, BrokenInput) and answer.asked is not None
    )
    return tuple(row for query, count in asked.items() for row in entries(query, count))


def _servable(alone: Sequence[object]) -> list[int]:
    """Return the numbers of the demands that can be served alone."""
    return [number for number, answer in enumerate(alone) if isinstance(answer, Decision)]


def _usable(scarcity: Scarcity | None, answer: Decision) -> int:
    """Return the free devices of the request with the fewest, counting its largest set; 0 where sets do not compete."""
    if scarcity is None or answer.asked is None:
        return 0
    free = [
        max(scarcity.free_devices(alternative) for alternative in slot.alternatives)
        for slot in answer.asked.slots
    ]
    return min(free, default=0)


def size_of(state: State, answer: Decision) -> Fraction:
    """Return the whole devices that a decision takes; a device with counters counts as the part that it takes of them, one with admin access not at all."""
    view = state.view(answer.node)
    total = Fraction(0)
    for allocation in answer.allocations:
        for result in allocation.results:
            if result.admin_access:
                continue
            index = view.find(result.device)
            place = view.group_of.get(index) if index is not None else None
            if place is None:
                total += 1
                continue
            # The mean over all counters: each memory slice is a counter of its own, and full once taken.
            group = view.groups[place[0]]
            taken = [
                Fraction(amount, group.totals[counter])
                for counter, amount in group.group_type.needs[place[1]]
                if group.totals[counter]
            ]
            total += sum(taken, Fraction(0)) / max(len(group.counters), 1)
    return total
