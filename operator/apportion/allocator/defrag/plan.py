"""plan(): the fewest and cheapest moves that lead to a goal.

In: a state, what may move, the goal, what nodes have left beside devices. Out: a plan that was replayed on the allocator's state, or None. Pure and
deterministic; the state is unchanged at the end.

Small clusters are searched exactly (`exactsearch`), within a budget of steps; everything else goes where the allocator sends it (`boundedsearch`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from apportion.allocator.decision import Decision
from apportion.allocator.defrag import boundedsearch
from apportion.allocator.defrag.cards import Card, cards
from apportion.allocator.defrag.exactsearch import STEPS, ExactSearch, Found, Occupant
from apportion.allocator.defrag.moves import FreeCards, Goal, Movable, Move, Plan, Resources, RoomFor
from apportion.allocator.defrag.packing import Packing, Place
from apportion.allocator.defrag.replay import Replay
from apportion.allocator.defrag.value import free_value
from apportion.allocator.state import State
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId
from apportion.dra.taint import Toleration

MOST_DEVICES, MOST_MOVABLES = 512, 48
"""A cluster with more devices, or in which more may move, is too large to be searched exactly."""


@dataclass(frozen=True, slots=True)
class Planning:
    """What plans are made from."""

    state: State
    movables: Sequence[Movable]
    """Each may move; everything else stays where it is, and so does what is on a node that is not there any more."""
    room: Mapping[str, Resources]
    """What each node has left of resources beside devices; a node that is not in it has enough of everything."""
    terms: Terms = DEFAULT_TERMS
    tolerations: tuple[Toleration, ...] = ()
    """Of the claims that would use a card that is freed."""
    steps: int = STEPS
    """Of the exact search."""

    def plan(self, goal: Goal) -> Plan | None:
        """Return a plan; None: there is none, or none was found. One without moves says that there is nothing to do.

        Raises BrokenInput if no state could serve the claims of a demand as they are written.
        """
        there = [each for each in self.movables if each.node in self.state.names()]
        if len(there) < len(self.movables):
            return replace(self, movables=there).plan(goal)
        found = self._room_for(goal) if isinstance(goal, RoomFor) else self._free_cards(goal)
        return replace(found, value=self._value(found.moves)) if found is not None else None

    def _room_for(self, goal: RoomFor) -> Plan | None:
        with Replay(self.state, self.room) as replay:
            served = replay.serve(goal.demand, goal.requests, self.terms)
        if served is not None:
            return Plan((), served, proven=True)
        return self._best(goal, self._bounded(goal), self.steps)

    def _free_cards(self, goal: FreeCards) -> Plan | None:
        """Return a plan for as many cards as can be freed."""
        bounded = self._bounded(goal)
        known = self._cards(goal)
        most = min(goal.count, sum(not card.free for card in known))
        # The exact searches for each number share the steps.
        tries = most + 1 - (len(bounded.cards) if bounded is not None else 0)
        for count in range(most, 0, -1):
            found = self._best(replace(goal, count=count), bounded, self.steps // tries)
            if found is not None and len(found.cards) >= count:
                return found
        return Plan((), proven=True) if not goal.count else None

    def _bounded(self, goal: Goal) -> Plan | None:
        with Replay(self.state, self.room) as replay:
            if isinstance(goal, RoomFor):
                served = boundedsearch.room_for(replay, self.movables, goal, self.terms)
                if served is None:
                    return None
                return self._made(replay, served, ())
            known = [*self._cards(goal)]
            freed = boundedsearch.free_cards(replay, known, goal, self.terms)
            return self._made(replay, None, [card.device for card in freed]) if freed else None

    def _best(self, goal: Goal, bounded: Plan | None, steps: int) -> Plan | None:
        """Return the better of a bounded plan and what an exact search finds."""
        if not self._is_small():
            return bounded
        most = sum(each.pods for each in self.movables)
        if isinstance(goal, FreeCards):
            if bounded is not None and len(bounded.cards) < goal.count:
                bounded = None
            most = most if goal.most_pods is None else min(most, goal.most_pods)
        exact = self._exact(goal, most if bounded is None else min(most, bounded.pods), steps)
        if exact is None or (bounded is not None and (bounded.pods, bounded.cost) < (exact.pods, exact.cost)):
            return bounded
        return exact

    def _cards(self, goal: Goal) -> Iterator[Card]:
        """Yield the cards that are free, and those that may be freed for a goal."""
        among = goal.among if isinstance(goal, FreeCards) else None
        for card in cards(self.state, self.movables, self.tolerations):
            if card.free or among is None or card.device in among:
                yield card

    def _is_small(self) -> bool:
        if len(self.movables) > MOST_MOVABLES:
            return False
        state = self.state
        return sum(len(state.view(name).devices) for name in state.names()) <= MOST_DEVICES

    def _exact(self, goal: Goal, most: int, steps: int) -> Plan | None:
        known = [*self._cards(goal)]
        with _released(self.state, self.movables):
            packing = Packing(self.state, self.room)
            occupants, movables = self._occupants(packing)
            if isinstance(goal, RoomFor):
                wanted = [[*packing.places(goal.demand, goal.requests)]]
            else:
                free = sum(card.free for card in known)
                places = [
                    packing.whole(card) for card in sorted(known, key=lambda card: (card.pods, card.device))
                ]
                wanted = [places] * (free + goal.count)
        left = packing.left
        for each in occupants:
            for what, amount in each.now.charge.items():
                left[what] -= amount
        search = ExactSearch(left, occupants, wanted, alike=len(wanted) > 1, steps=steps)
        found = search.best(most)
        if found is None:
            return None
        return self._replayed(goal, known, movables, found, proven=search.proven and packing.complete)

    def _occupants(self, packing: Packing) -> tuple[list[Occupant], list[Movable]]:
        occupants: list[Occupant] = []
        movables: list[Movable] = []
        for each in self.movables:
            now = packing.now(each)
            if now is not None:
                places = [
                    place
                    for place in packing.places(each.demand, each.requests)
                    if _both_fit(packing, now, place)
                ]
                occupants.append(Occupant(each.pods, each.cost, now, places))
                movables.append(each)
        return occupants, movables

    def _replayed(
        self, goal: Goal, known: Sequence[Card], movables: Sequence[Movable], found: Found, *, proven: bool
    ) -> Plan | None:
        """Return the plan as the allocator decides it; None where it decides otherwise."""
        with Replay(self.state, self.room) as replay:
            for number, place in found.moves:
                if (
                    replay.move(movables[number], self.terms, nodes=[place.node], devices=place.devices)
                    is None
                ):
                    return None
            if isinstance(goal, RoomFor):
                [wanted] = found.wanted
                served = replay.serve(goal.demand, goal.requests, self.terms, wanted.devices)
                return self._made(replay, served, (), proven=proven) if served is not None else None
            before = {card.device for card in known if card.free}
            cleared = {device for place in found.wanted for device in place.devices}
            return self._made(replay, None, sorted(cleared - before), proven=proven)

    @staticmethod
    def _made(
        replay: Replay, served: Decision | None, cleared: Iterable[DeviceId], *, proven: bool = False
    ) -> Plan:
        return Plan(tuple(replay.moved), served, tuple(cleared), proven=proven)

    def _value(self, moves: Sequence[Move]) -> int | None:
        """Return what the free devices are worth more after moves."""
        nodes = {node for move in moves for node in (move.movable.node, move.decision.node)}
        before = free_value(self.state, nodes, self.terms)
        if before is None:
            return None
        for move in moves:
            for claim, allocation in zip(move.movable.demand.claims, move.decision.allocations, strict=True):
                self.state.hold(claim.uid, allocation.results)
        after = free_value(self.state, nodes, self.terms)
        for move in moves:
            for key, results in move.movable.holds.items():
                self.state.hold(key, results)
        return None if after is None else after - before


def _both_fit(packing: Packing, now: Place, place: Place) -> bool:
    """Say whether a place could be held while the present one is: both together fit if nothing else is there."""
    return all(
        packing.left[what] >= amount + now.charge.get(what, 0) for what, amount in place.charge.items()
    )


@contextmanager
def _released(state: State, movables: Sequence[Movable]) -> Iterator[None]:
    """Release what may move, within a block."""
    for each in movables:
        for key in each.holds:
            state.release(key)
    try:
        yield
    finally:
        for each in movables:
            for key, results in each.holds.items():
                state.hold(key, results)
