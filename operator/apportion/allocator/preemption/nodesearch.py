"""NodeSearch: the cheapest victims of one node with which it serves a demand.

In: a state, the demand, the node's victims. Out: a set of victims that no cheaper one can replace, unless the search ends at its budget.

The allocator is asked, with victims released: whatever it can serve (constraints, alternatives, shared counters) a set of
victims can make room for. Fewer victims never serve more, so every set that is cheaper than a known one lacks at least one
of its victims. The search decides for one victim of the best known set after the other whether it stays, and leaves out
what cannot be cheaper by the bound of `Conflicts`. A set with which more goes than may (`NodeVictims.allowance`) is treated like
a known one: every set that may go lacks one of its victims, too.

The allocator is asked in steps. Between two of them everything is held as it was, so that others may run.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from apportion.allocator.allocate import catching_up, decide
from apportion.allocator.bits import bits
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.preemption.conflicts import HOPELESS, Conflicts
from apportion.allocator.preemption.victims import LEAVING, NodeVictims, Victim
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.device import DeviceId

_ANY = Terms(Strategy.PACK)
"""Terms of a question that is not for the best devices, but whether there are any."""


@dataclass(slots=True)
class Budget:
    """Questions that may still be asked of the allocator."""

    left: int


@dataclass(frozen=True, slots=True)
class Found:
    """Victims of one node."""

    priority: int
    mask: int
    """Over `NodeVictims.victims`, without those that go with a group."""
    weight: int


@dataclass(slots=True)
class NodeSearch:
    """Searches one node; raises BrokenInput if no state could serve the claims as they are written. Its results hold as long as neither the node nor its victims change."""

    state: State
    demand: Demand
    node: NodeVictims
    wanted: Mapping[str, int]
    """Resources that the demand's pods request of the node."""
    budget: Budget
    proven: bool = True
    """Whether the search has not ended at its budget."""
    _conflicts: Conflicts = field(init=False)
    _levels: list[int] = field(init=False)
    """The priorities of the victims, ascending."""
    _best: Found | None = None
    _below: int = HOPELESS
    """The weight that a set has to fall below."""
    _known: dict[int, Decision | None] = field(default_factory=dict)
    """Answers by victims released."""

    def __post_init__(self) -> None:
        """Find out what stands in the way of what."""
        state = self.state
        self.demand = replace(self.demand, nodes=frozenset({self.node.node}), host=None)
        self._levels = sorted({LEAVING, *(each.priority for each in self.node.victims)})
        query = state.queries.of(self.demand.claims, state.classes, state.features, self.demand.tolerations)
        with self._without(self._all):
            self._conflicts = Conflicts(
                state.view(self.node.node), self.node, query, self.wanted, state.selectors
            )

    @property
    def _all(self) -> int:
        return (1 << len(self.node.victims)) - 1

    def bound(self) -> tuple[int, int] | None:
        """Return the least priority and weight that a set can have; None: there is none."""
        for priority in self._levels:
            staying = self._all & ~self.node.mask_up_to(priority)
            bound = self._conflicts.bound(0, staying)
            if bound < HOPELESS:
                return priority, -(-bound // self._conflicts.scale)
        return None

    def cheapest(self, below: tuple[int, int] | None) -> Generator[None, None, Found | None]:
        """Return the cheapest victims; None if there are none, or none below this priority and weight. Yields after each step.

        Raises BrokenInput if no state could serve the claims as they are written.
        """
        least = self.bound()
        if least == (LEAVING, 0) and (yield from self._serves(0)) is not None:
            return Found(LEAVING, 0, 0)
        for priority in self._levels if least is not None else ():
            if least is None or priority < least[0]:
                continue
            if below is not None and priority > below[0]:
                return None
            mask = self.node.mask_up_to(priority)
            if (yield from self._serves(mask)) is not None:
                self._below = below[1] if below is not None and priority == below[0] else HOPELESS
                yield from self._search(priority, mask, 0, self._all & ~mask)
                if self._best is not None:
                    return self._best
        return None

    def roughly(self) -> Found | None:
        """Return victims of the least priority with which the node serves the demand; for who may ask no more which of them could stay.

        None: there are none, or more would go than may. Raises BrokenInput as `cheapest`.
        """
        for priority in self._levels:
            mask = self.node.mask_up_to(priority)
            decision = self.decision(mask, _ANY, self._conflicts.bonuses)
            if decision is not None:
                few = mask & self._conflicts.with_devices(self._devices(decision))
                for going in (few, mask):
                    if (
                        going
                        and self.node.allows(going)
                        and self.decision(going, _ANY, self._conflicts.bonuses)
                    ):
                        return Found(priority, going, self.node.weight(going))
        return None

    def decision(self, mask: int, terms: Terms, prefer: Mapping[DeviceId, int]) -> Decision | None:
        """Return what the demand gets by these terms once the victims are gone; None: nothing, or its pods have no room.

        Raises BrokenInput as `cheapest`.
        """
        return (
            self._decided(mask, terms, prefer) or self._decided(mask, _ANY, self._conflicts.bonuses)
            if self._conflicts.holds_room(mask)
            else None
        )

    def _search(self, priority: int, free: int, going: int, staying: int) -> Generator[None, None, None]:
        """Look for cheaper sets among those with all that go and none that stay; `free`: all victims of this priority."""
        if self._conflicts.bound(going, staying) >= min(self._below * self._conflicts.scale, HOPELESS):
            return
        if not self.node.allows(going):
            return
        if self.budget.left <= 0:
            self.proven = False
            return
        if (yield from self._serves(free & ~staying)) is None:
            return
        found = yield from self._narrowed(free & ~staying)
        weight = self.node.weight(found)
        if weight < self._below and self.node.allows(found):
            self._best, self._below = Found(priority, found, weight), weight
        for index in self._dearest_first(found & ~going):
            yield from self._search(priority, free, going, staying | 1 << index)
            going |= 1 << index

    def _narrowed(self, released: int) -> Generator[None, None, int]:
        """Return a set within these victims that serves the demand, and of which none can be left out."""
        decision = yield from self._serves(released)
        concerned = self._concerned(decision) & released if decision is not None else released
        for index in self._dearest_first(released & ~concerned):
            without = released & ~(1 << index)
            if self._conflicts.holds_room(without):
                released = without
        conflicting = released & ~concerned | self._conflicts.with_devices(self._devices(decision))
        if conflicting != released and (yield from self._serves(conflicting & released)) is not None:
            released &= conflicting
        for index in self._dearest_first(released & concerned):
            without = released & ~(1 << index)
            if (yield from self._serves(without)) is not None:
                released = without
        return released

    def _concerned(self, decision: Decision) -> int:
        """Return the victims whose devices, or cards of whose devices, a decision takes; it does not need the others to go.

        Those with a device that is in no slice any more are among them: of which card it was is not known.
        """
        view = self.state.view(self.node.node)
        taken: set[tuple[str, int]] = set()
        for index in self._devices(decision):
            taken.update(_things(index, view.group_of))
        found = 0
        for number, victim in enumerate(self.node.victims):
            places = [view.find(result.device) for results in victim.holds.values() for result in results]
            if None in places or any(_things(place, view.group_of) & taken for place in places):
                found |= 1 << number
        return found

    def _devices(self, decision: Decision | None) -> set[int]:
        """Return the devices of a decision, by position on the node."""
        view = self.state.view(self.node.node)
        results = [each for found in decision.allocations for each in found.results] if decision else ()
        return {index for each in results if (index := view.find(each.device)) is not None}

    def _dearest_first(self, mask: int) -> list[int]:
        def rank(index: int) -> tuple[int, int, str]:
            victim: Victim = self.node.victims[index]
            return -victim.priority, -victim.weight, victim.key

        return sorted(bits(mask), key=rank)

    def _serves(self, released: int) -> Generator[None, None, Decision | None]:
        """Return a decision for the demand without these victims; None where there is none, or no room for its pods."""
        if released not in self._known:
            found, goes_on = None, self._conflicts.holds_room(released)
            if goes_on:
                self.budget.left -= 1
            while goes_on:
                found, goes_on = self._asked(released)
                yield
            self._known[released] = found
        return self._known[released]

    def _asked(self, released: int) -> tuple[Decision | None, bool]:
        """Return the decision without these victims, or whether the search for it goes on after a slice."""
        prefer = self._conflicts.bonuses
        with self._without(released):
            if any(catching_up(self.state, self.demand, _ANY, prefer=prefer, supposed=True)):
                return None, True
            return decide(self.state, self.demand, _ANY, prefer=prefer), False

    def _decided(self, released: int, terms: Terms, prefer: Mapping[DeviceId, int]) -> Decision | None:
        with self._without(released):
            return decide(self.state, self.demand, terms, prefer=prefer)

    @contextmanager
    def _without(self, released: int) -> Iterator[None]:
        """Release these victims within a block."""
        held = [row for each in self.node.chosen(released) for row in each.holds.items()]
        self.state.release_all(key for key, _ in held)
        try:
            yield
        finally:
            self.state.hold_all(held)


def _things(index: int | None, group_of: Mapping[int, tuple[int, int]]) -> set[tuple[str, int]]:
    """Return a device and its counter group, by which devices get into each other's way."""
    if index is None:
        return set()
    found = {("device", index)}
    if index in group_of:
        found.add(("group", group_of[index][0]))
    return found
