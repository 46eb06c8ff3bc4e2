"""Replay: moves one by one on the allocator's state, until the end of a `with` block.

In: a state, moves. Out: what the allocator allocates for each, while all that has not moved yet is still where it was; None where it would not.
The room of nodes (cpu and so on) is counted too. At the end of the block the state is as before.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.defrag.moves import Movable, Move, Resources
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId


@dataclass(slots=True)
class Replay:
    """Moves on a state."""

    state: State
    room: Mapping[str, Resources]
    """What each node has left of resources; a node that is not in it has enough of everything."""
    moved: list[Move] = field(default_factory=list)
    _taken: dict[str, dict[str, int]] = field(default_factory=dict)
    """What moves have taken of nodes, below zero where they gave back."""
    _kept: dict[str, tuple[DeviceResult, ...]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.back(0)
        for key in tuple(self._kept):
            self.let_go(key)

    def keep(self, key: str, results: tuple[DeviceResult, ...]) -> None:
        """Keep devices from everybody, until the end or `let_go`."""
        self._kept[key] = results
        self.state.hold(key, results)

    def let_go(self, key: str) -> None:
        """Keep them no longer."""
        del self._kept[key]
        self.state.release(key)

    def take(self, node: str, requests: Resources) -> None:
        """Count resources of a node as taken until the end; negative amounts give back."""
        taken = self._taken.setdefault(node, {})
        for name, amount in requests.items():
            taken[name] = taken.get(name, 0) + amount

    def holds(self, node: str, wanted: Resources) -> bool:
        """Say whether a node has so much left."""
        left = self.room.get(node)
        if left is None:
            return True
        taken = self._taken.get(node, {})
        return all(
            left.get(name, 0) - taken.get(name, 0) >= amount for name, amount in wanted.items() if amount
        )

    def move(
        self, movable: Movable, terms: Terms, *, nodes: Collection[str], devices: Collection[DeviceId] = ()
    ) -> Move | None:
        """Move to one of these nodes, to just these devices if any are named; None where the allocator finds no place there now."""
        allowed = movable.demand.nodes if movable.demand.nodes is not None else self.state.names().keys()
        roomy = frozenset(name for name in nodes if name in allowed and self._has_room(movable, name))
        found = self._decide(replace(movable.demand, nodes=roomy), devices, terms) if roomy else None
        if found is None:
            return None
        for key, allocation in zip(self._keys(movable), found.allocations, strict=True):
            self.state.hold(key, allocation.results)
        made = Move(movable, found)
        self.moved.append(made)
        self._count(made, 1)
        return made

    def serve(
        self, demand: Demand, requests: Resources, terms: Terms, devices: Collection[DeviceId] = ()
    ) -> Decision | None:
        """Return what a demand gets now, of just these devices if any are named."""
        allowed = demand.nodes if demand.nodes is not None else self.state.names().keys()
        roomy = frozenset(name for name in allowed if self.holds(name, requests))
        return self._decide(replace(demand, nodes=roomy), devices, terms) if roomy else None

    def back(self, moves: int) -> None:
        """Undo all moves but the first."""
        while len(self.moved) > moves:
            made = self.moved.pop()
            self._count(made, -1)
            for key in self._keys(made.movable):
                self.state.release(key)
            for key, results in made.movable.holds.items():
                self.state.hold(key, results)

    def _has_room(self, movable: Movable, node: str) -> bool:
        if node != movable.node:
            return self.holds(node, movable.requests)
        # Its pods ask of their own node what they asked before, unless that was given to something else meanwhile.
        taken = self._taken.get(node, {})
        return all(
            self.room[node].get(name, 0) >= taken[name]
            for name, amount in movable.requests.items()
            if node in self.room and amount and taken.get(name, 0) > 0
        )

    def _decide(self, demand: Demand, devices: Collection[DeviceId], terms: Terms) -> Decision | None:
        others: set[DeviceId] = set()
        for name in demand.nodes or () if devices else ():
            view = self.state.view(name)
            others.update(view.id_of(index) for index in range(len(view.devices)))
        excluded = demand.excluded | (others - {*devices})
        return decide(self.state, replace(demand, excluded=excluded, host=None), terms)

    def _keys(self, movable: Movable) -> list[str]:
        """Return the keys of its claims, in the order of the demand."""
        return [claim.uid for claim in movable.demand.claims]

    def _count(self, made: Move, sign: int) -> None:
        for name, amount in made.movable.requests.items():
            self.take(made.decision.node, {name: sign * amount})
            self.take(made.movable.node, {name: -sign * amount})
