"""GangSearch: victims on several nodes with which all members of a gang are served.

In: a state, the members, the victims of each node. Out: a set of victims of which none can be left out, and what the members get.

Member after member gets the cheapest victims of one node (`NodeSearch`), beside those that go already; what others leave free serves the next one.
Then each victim that the gang can do without stays, the dearest first, and all members are placed anew each time.

The work is done in steps. `suspend` gives back all that it holds and has released, so that others may run, and `resume` takes it once more.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.gang.count import count_devices, first_of_kinds, kind_of
from apportion.allocator.gang.domains import GroupLadder
from apportion.allocator.gang.members import DeviceShortage, GangAnswer, GangServed
from apportion.allocator.gang.place import place_gang
from apportion.allocator.gang.placed import PlacedMembers
from apportion.allocator.preemption.gangroom import GangMember, GangRoom, Neighbours
from apportion.allocator.preemption.nodesearch import Budget, NodeSearch
from apportion.allocator.preemption.severalnodes import Going, Place, SeveralNodes
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId

_NOBODY: Going = frozenset()
_HOPELESS = (1 << 32, 0)
"""Priority and weight of what no node can serve."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What a member costs on one node: at least, or by a search."""

    bound: tuple[int, int]
    """Priority and weight."""
    found: frozenset[Place] | None = None
    """Who goes; None: only the bound is known."""


class GangSearch:
    """Searches for one gang; the state is as it was whenever a method has returned. Methods that search yield after each step."""

    def __init__(
        self,
        state: State,
        members: Sequence[GangMember],
        victims: SeveralNodes,
        ladder: GroupLadder,
        prefer: Mapping[DeviceId, int],
        budget: Budget,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._state = state
        self._members = members
        self._placeable = [each.member for each in members]
        self._victims = victims
        self._ladder = ladder
        self._prefer = prefer
        self._budget = budget
        self._room = GangRoom(members, victims.nodes, neighbours)
        self._rows: dict[object, dict[str, _Row | None]] = {}
        """What a member costs on each node where that is known, by kind; None: no set of victims serves it there."""
        self._release = _Release(state, victims, self._room)
        self._placed = PlacedMembers(state, self._room)

    @property
    def proven(self) -> bool:
        """Whether the search has not ended at its budget."""
        return self._budget.left > 0

    # Pauses. ----------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Let the state be as it was before the search."""
        self._room.suspend()
        self._state.release_all(key for key, _ in self._placed.held)
        self._state.hold_all(self._release.held)

    def resume(self) -> None:
        """Undo `suspend`."""
        self._state.release_all(key for key, _ in self._release.held)
        self._state.hold_all(self._placed.held)
        self._room.resume()

    def abandon(self) -> None:
        """End the search while it is suspended: nothing more is held or released."""
        self._release.forget()

    # One set. ---------------------------------------------------------------------------------------------------

    def served(self, going: Going) -> Generator[None, None, tuple[Decision, ...] | None]:
        """Return what the members get once these victims are gone; None: not all of them get something.

        Raises BrokenInput if a member's claims cannot be served by any state as they are written.
        """
        with self._releasing():
            return (yield from self._served(going))

    def _served(self, going: Going) -> Generator[None, None, tuple[Decision, ...] | None]:
        self._release(going)
        enough, before = sum(each.pods for each in self._placeable), self._room.asked
        found: GangAnswer | None = None
        with self._placed:
            short = count_devices(self._state, self._placeable, self._room, enough=enough)
            if not isinstance(short, DeviceShortage):
                found = yield from place_gang(
                    self._placed, self._placeable, enough=enough, prefer=self._prefer, ladder=self._ladder
                )
            self._budget.left -= self._room.asked - before
        if not isinstance(found, GangServed):
            return None
        return tuple(each for each in found.decisions if each is not None)

    def narrowed(self, going: Going) -> Generator[None, None, Going | None]:
        """Return victims within these with which the gang is served, none of which can be left out; None: it is not served by all of them.

        Once the budget is used up, some may be left that could stay.
        """
        victims = self._victims
        with self._releasing():
            if (yield from self._served(going)) is None:
                return None
            for place in victims.dearest_first(going):
                if self._budget.left <= 0:
                    return going
                without = going - {place}
                if (
                    victims.closed(without) == victims.closed(going)
                    or (yield from self._served(without)) is not None
                ):
                    going = without
                yield  # one without whom devices are too few by counting is no step of `_served`
            for group in sorted(victims.broken(going)):
                going = yield from self._mended(group, going)
        return going

    def _mended(self, group: str, going: Going) -> Generator[None, None, Going]:
        """Return these victims with so few pods of a group that it is not broken, if that is enough."""
        own = self._victims.of_group(group)
        for place in reversed(self._victims.dearest_first(own)):
            few = going - own | {place}
            if (
                self._budget.left > 0
                and self._victims.victim(place).pods <= self._victims.spare(group)
                and (yield from self._served(few)) is not None
            ):
                return few
        return going

    # The cheapest for each. -------------------------------------------------------------------------------------

    def cheapest(self, within: frozenset[str] | None) -> Generator[None, None, Going | None]:
        """Return victims with which the members get devices one after the other on these nodes (None: all); None: one of them does not.

        Raises BrokenInput as `served`.
        """
        self._rows.clear()
        going = _NOBODY
        with self._releasing(within), self._placed:
            for index in (yield from self._dearest_members()):
                if self._place(index):
                    yield
                    continue
                found = yield from self._next(index, going)
                if found is None:
                    return None
                self._forget(going, going | found)
                going |= found
                self._release(going)
                if not self._place(index):
                    return None
                yield
        return going

    def _place(self, index: int) -> bool:
        """Give a member devices that are free by now, if there are any."""
        demand = self._room.of(index)
        self._budget.left -= 1
        found = (
            decide(self._state, demand, self._members[index].member.terms, prefer=self._prefer)
            if demand is not None
            else None
        )
        if demand is None or found is None:
            return False
        self._placed.put(index, demand, found)
        for rows in self._rows.values():
            rows.pop(found.node, None)
        return True

    def _dearest_members(self) -> Generator[None, None, list[int]]:
        """Return the members in an order in which those that need the most to go have the first choice."""
        dearest: dict[object, tuple[int, int]] = {}
        for kind, index in first_of_kinds(self._placeable).items():
            known = yield from self._costs(index, _NOBODY)
            dearest[kind] = min([row.bound for row in known.values() if row is not None], default=_HOPELESS)
        order = sorted(range(len(self._members)), key=lambda index: dearest[kind_of(self._placeable, index)])
        return order[::-1]

    def _costs(self, index: int, going: Going) -> Generator[None, None, dict[str, _Row | None]]:
        """Return what a member costs on each node, at least."""
        rows = self._rows.setdefault(kind_of(self._placeable, index), {})
        for node in sorted(self._room.suiting(index) - rows.keys()):
            rows[node] = yield from self._searched(index, node, going, whole=False)
            yield
        return rows

    def _next(self, index: int, going: Going) -> Generator[None, None, Going | None]:
        """Return the victims that cost the least of those with which one node serves a member; once the budget is used up, about the least."""
        rows, nodes = (yield from self._costs(index, going)), self._room.suiting(index)
        spent = self._victims.cost(going).priority
        while known := [(row, node) for node, row in rows.items() if row is not None and node in nodes]:
            row, node = min(known, key=lambda each: (max(each[0].bound[0], spent), each[0].bound[1], each[1]))
            if row.found is not None:
                return row.found
            rows[node] = found = yield from self._searched(index, node, going, whole=True)
            if found is not None and not self.proven:
                return found.found
        return None

    def _searched(
        self, index: int, node: str, going: Going, *, whole: bool
    ) -> Generator[None, None, _Row | None]:
        """Return what a member costs on a node beside those who go already: a bound, or (`whole`) the cheapest victims."""
        left, at = self._victims.left(node, going, self._room.left(node))
        wanted, demand = self._room.wanted(index), self._members[index].demand
        search = NodeSearch(self._state, demand, left, wanted, self._budget)
        if not whole:
            bound = search.bound()
            return _Row(bound) if bound is not None else None
        found = (yield from search.cheapest(None)) if self.proven else None
        if found is None and not self.proven:
            found = search.roughly()
        if found is None or not found.mask:
            return None
        chosen = frozenset((node, at[number]) for number in range(len(at)) if found.mask >> number & 1)
        return _Row((found.priority, found.weight), chosen)

    def _forget(self, before: Going, after: Going) -> None:
        """Forget what members cost where that changed with those who go."""
        victims = self._victims
        new = victims.closed(after) - victims.closed(before)
        touched = {node for node, _ in new}
        for group in {victims.victim(place).group for place in new} - {""}:
            touched |= {node for node, _ in victims.of_group(group)}
        counts = any(victims.victim(place).counted for place in new)
        for rows in self._rows.values():
            for node in tuple(rows) if counts else touched & rows.keys():
                del rows[node]

    # The state. -------------------------------------------------------------------------------------------------

    @contextmanager
    def _releasing(self, within: frozenset[str] | None = None) -> Iterator[None]:
        """Hold all victims at the end of the block; `within`: the nodes that count (None: all)."""
        self._room.begin(within)
        try:
            yield
        finally:
            self._release(_NOBODY)


class _Release:
    """Releases victims in the state, and counts the room that they give back."""

    def __init__(self, state: State, victims: SeveralNodes, room: GangRoom) -> None:
        self._state = state
        self._victims = victims
        self._room = room
        self._gone: Going = _NOBODY

    def __call__(self, going: Going) -> None:
        """Release these, and groups with them; hold all others."""
        gone = self._victims.closed(going)
        new, back = gone - self._gone, self._gone - gone
        self._state.release_all(key for key, _ in self._holds(new))
        self._state.hold_all(self._holds(back))
        for places, sign in ((new, 1), (back, -1)):
            for place in places:
                self._room.free(place[0], self._victims.victim(place).freed, sign)
        self._gone = gone

    @property
    def held(self) -> list[tuple[str, tuple[DeviceResult, ...]]]:
        """What the released victims had, by the keys of the state."""
        return self._holds(self._gone)

    def forget(self) -> None:
        """Count none as released."""
        self._gone = _NOBODY

    def _holds(self, places: Going) -> list[tuple[str, tuple[DeviceResult, ...]]]:
        return [row for place in places for row in self._victims.victim(place).holds.items()]
