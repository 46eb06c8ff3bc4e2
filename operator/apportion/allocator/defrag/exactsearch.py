"""ExactSearch: the fewest and cheapest moves after which all that is wanted has a place.

In: a cluster as amounts, who may move where, what is wanted. Out: who goes where, in order; and whether nothing better exists, or the search ended at its
budget.

What is wanted takes a place; what is in the way goes, and takes a place in turn, where others may be in the way. The number of pods that have to go is
known before their places are, so it is raised by one as long as there is no plan (iterative deepening). Nobody moves twice. A new place must be free while the
old one is still taken, so the moves need an order; where there is none, they are no plan.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apportion.allocator.defrag.packing import Charge, Place

STEPS = 30_000
"""Choices that are tried, of places, of those in the way and of the order of moves: about a second."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """Something that may move."""

    pods: int
    cost: int
    now: Place
    places: Sequence[Place]


@dataclass(frozen=True, slots=True)
class Found:
    """Who goes where."""

    pods: int
    cost: int
    moves: tuple[tuple[int, Place], ...]
    """Occupants by position, in order."""
    wanted: tuple[Place, ...]


@dataclass(slots=True)
class ExactSearch:
    """One search."""

    left: list[int]
    """What is left of each amount now, with all occupants where they are."""
    occupants: Sequence[Occupant]
    wanted: Sequence[Sequence[Place]]
    """For each thing that is wanted its places."""
    alike: bool = False
    """Whether all that is wanted is the same, with the same places in the same order."""
    steps: int = STEPS
    proven: bool = True
    """Whether the search has not ended at its budget."""
    _users: dict[int, list[int]] = field(default_factory=dict)
    """Occupants by what they take."""
    _most: int = 0
    _best: Found | None = None
    _pods: int = 0
    _cost: int = 0
    _moved: dict[int, Place] = field(default_factory=dict)
    _waiting: set[int] = field(default_factory=set)
    """Those that have to go, and have no place yet."""
    _chosen: list[tuple[int, Place]] = field(default_factory=list)
    """What is wanted, with its places by their positions."""
    _seen: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Note who takes what."""
        for number, each in enumerate(self.occupants):
            for what in (*each.now.charge, *each.now.on_node):
                self._users.setdefault(what, []).append(number)

    def best(self, most: int) -> Found | None:
        """Return the best plan that restarts at most so many pods; None: there is none, or none was found within the budget."""
        sizes = sorted({each.pods for each in self.occupants})
        for pods in range(most + 1):
            if pods and (not sizes or pods < sizes[0]):
                continue
            self._most = pods
            self._seen.clear()
            self._extend()
            if self._best is not None:
                break
            if self.steps <= 0:
                self.proven = False
                break
        return self._best

    def _spend(self) -> bool:
        """Say whether the budget is enough for one more choice, and count it."""
        if self.steps <= 0:
            self.proven = False
            return False
        self.steps -= 1
        return True

    def _extend(self) -> None:
        if self._best is not None and (self._pods, self._cost) >= (self._best.pods, self._best.cost):
            return
        if not self._spend():
            return
        key = (
            frozenset((number, id(place)) for number, place in self._moved.items()),
            frozenset(self._waiting),
            tuple(at for at, _ in self._chosen),
        )
        if key in self._seen:
            return
        self._seen.add(key)
        if len(self._chosen) < len(self.wanted):
            self._choose_wanted()
        elif self._waiting:
            self._choose_place()
        else:
            self._finish()

    def _choose_wanted(self) -> None:
        first = self._chosen[-1][0] + 1 if self.alike and self._chosen else 0
        for at, place in enumerate(self.wanted[len(self._chosen)][first:], first):
            charge = _sum(place.charge, place.on_node)
            for going in self._covers(charge, -1, (), set()):
                self._go(going)
                self._take(charge, -1)
                self._chosen.append((at, place))
                self._extend()
                self._chosen.pop()
                self._take(charge, 1)
                self._return(going)

    def _choose_place(self) -> None:
        # Who has the fewest places is placed first: that ends vain attempts early.
        number = min(self._waiting, key=lambda each: (len(self.occupants[each].places), each))
        occupant = self.occupants[number]
        self._waiting.discard(number)
        for place in occupant.places:
            charge = _sum(place.charge, place.on_node)
            for going in self._covers(charge, number, (), set()):
                self._go(going)
                self._take(charge, -1)
                self._moved[number] = place
                self._extend()
                del self._moved[number]
                self._take(charge, 1)
                self._return(going)
        self._waiting.add(number)

    def _covers(
        self, charge: Charge, mover: int, going: tuple[int, ...], seen: set[frozenset[int]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield sets of occupants after whose going this fits, with those that go anyway."""
        key = frozenset(going)
        if key in seen or not self._spend():
            return
        seen.add(key)
        short = self._short(charge, going)
        if short is None:
            yield going
            return
        spent = self._pods + sum(self.occupants[each].pods for each in going)
        for other in self._users.get(short, ()):
            if (
                other != mover
                and other not in going
                and other not in self._waiting
                and other not in self._moved
                and spent + self.occupants[other].pods <= self._most
            ):
                yield from self._covers(charge, mover, (*going, other), seen)

    def _short(self, charge: Charge, going: Sequence[int]) -> int | None:
        """Return something of which too little is left without those that go."""
        for what, amount in charge.items():
            left = self.left[what]
            if left < amount:
                for each in going:
                    now = self.occupants[each].now
                    left += now.charge.get(what, 0) + now.on_node.get(what, 0)
                if left < amount:
                    return what
        return None

    def _go(self, going: Sequence[int]) -> None:
        for each in going:
            occupant = self.occupants[each]
            self._pods += occupant.pods
            self._cost += occupant.cost
            self._waiting.add(each)
            self._take(occupant.now.charge, 1)
            self._take(occupant.now.on_node, 1)

    def _return(self, going: Sequence[int]) -> None:
        for each in going:
            occupant = self.occupants[each]
            self._pods -= occupant.pods
            self._cost -= occupant.cost
            self._waiting.discard(each)
            self._take(occupant.now.charge, -1)
            self._take(occupant.now.on_node, -1)

    def _take(self, charge: Mapping[int, int], sign: int) -> None:
        for what, amount in charge.items():
            self.left[what] += sign * amount

    def _finish(self) -> None:
        order = self._order()
        if order is not None:
            moves = tuple((number, self._moved[number]) for number in order)
            self._best = Found(self._pods, self._cost, moves, tuple(place for _, place in self._chosen))

    def _order(self) -> list[int] | None:
        """Return the moves in an order in which each finds its place free; None: there is none, or none was found within the budget."""
        left = self.left.copy()
        for _, place in self._chosen:
            _add(left, _sum(place.charge, place.on_node), 1)
        for number, place in self._moved.items():
            _add(left, _arriving(self.occupants[number], place), 1)
            _add(left, _leaving(self.occupants[number], place), -1)
        failed: set[frozenset[int]] = set()

        def ordered(rest: frozenset[int]) -> list[int] | None:
            if not rest:
                return []
            if rest in failed or not self._spend():
                return None
            for number in sorted(rest):
                occupant, place = self.occupants[number], self._moved[number]
                charge = _arriving(occupant, place)
                if all(left[what] >= amount for what, amount in charge.items()):
                    _add(left, charge, -1)
                    _add(left, _leaving(occupant, place), 1)
                    later = ordered(rest - {number})
                    _add(left, _leaving(occupant, place), -1)
                    _add(left, charge, 1)
                    if later is not None:
                        return [number, *later]
            failed.add(rest)
            return None

        return ordered(frozenset(self._moved))


def _arriving(occupant: Occupant, place: Place) -> Charge:
    """Return what a move takes in the new place while the old one is taken; of its own node its pods ask what they asked before."""
    return place.charge if place.node == occupant.now.node else _sum(place.charge, place.on_node)


def _leaving(occupant: Occupant, place: Place) -> Charge:
    """Return what a move gives back."""
    now = occupant.now
    return now.charge if place.node == now.node else _sum(now.charge, now.on_node)


def _sum(one: Charge, other: Charge) -> Charge:
    if not other:
        return one
    found = dict(one)
    for what, amount in other.items():
        found[what] = found.get(what, 0) + amount
    return found


def _add(left: list[int], charge: Charge, sign: int) -> None:
    for what, amount in charge.items():
        left[what] += sign * amount
