"""PlacedMembers: decisions about members of a gang, held on the state until the gang is served or given up.

In: a state, decisions one by one. Out: devices that nobody else is given meanwhile, and pods that are counted on their nodes. Others may
change the state in between: members that this made impossible are found by the nodes that changed.
"""

from collections.abc import Sequence
from typing import Self

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.gang.members import MemberDemands
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult


class PlacedMembers:
    """The members that have devices; all lose them when the block ends."""

    def __init__(self, state: State, demands: MemberDemands) -> None:
        self.state = state
        self.demands = demands
        self.decisions: dict[int, Decision] = {}
        """By member."""
        self._keys: dict[int, tuple[str, ...]] = {}
        self._on: dict[str, tuple[NodeView, set[int]]] = {}
        """By node: what it was when the first of its members was placed there, and the members."""
        self._seen = state.moment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def held(self) -> list[tuple[str, Sequence[DeviceResult]]]:
        """What is held for the members, by the keys of the state."""
        return [
            (key, allocation.results)
            for member, keys in self._keys.items()
            for key, allocation in zip(keys, self.decisions[member].allocations, strict=True)
        ]

    def put(self, member: int, demand: Demand, decision: Decision) -> None:
        """Hold the devices of a member, and count its pods."""
        self.decisions[member] = decision
        # Not the claim's own key, by which somebody else's allocation of it may come to be held.
        keys = self._keys[member] = tuple(
            f"group:{claim.uid or f'{member}/{number}'}" for number, claim in enumerate(demand.claims)
        )
        for key, allocation in zip(keys, decision.allocations, strict=True):
            self.state.hold(key, allocation.results)
        self._on.setdefault(decision.node, (self.state.view(decision.node), set()))[1].add(member)
        self.demands.serve(member, decision.node)
        self._seen = self.state.moment

    def drop(self, member: int) -> Decision:
        """Release the devices of a member, and count its pods no longer; returns what was decided."""
        decision = self.decisions.pop(member)
        for key in self._keys.pop(member):
            self.state.release(key)
        members = self._on[decision.node][1]
        members.discard(member)
        if not members:
            del self._on[decision.node]
        self.demands.release(member)
        self._seen = self.state.moment
        return decision

    def clear(self) -> None:
        """Release all of them."""
        for member in tuple(self.decisions):
            self.drop(member)

    def drop_lost(self) -> list[int]:
        """Drop the members that changes since the last call, or the last member, made impossible; returns them."""
        lost = set(self.demands.lost())
        if self.state.moment != self._seen:
            self._seen, changed = self.state.since(self._seen)
            for node in self._on if changed is None else self._on.keys() & changed.keys():
                lost |= self._lost_on(node)
        for member in lost:
            self.drop(member)
        return sorted(lost)

    def _lost_on(self, node: str) -> set[int]:
        view, members = self._on[node]
        # A node's view is another object after its slices, its taints or the node itself changed.
        if node not in self.state.names() or self.state.view(node) is not view:
            return set(members)
        return {
            member for member in members if any(self._is_taken(view, each) for each in self._results(member))
        }

    def _results(self, member: int) -> list[DeviceResult]:
        return [result for each in self.decisions[member].allocations for result in each.results]

    def _is_taken(self, view: NodeView, result: DeviceResult) -> bool:
        """Say whether others have the device, or so much of its capacity or its counters that it is there for one of them only."""
        if result.admin_access:
            return False
        index = view.find(result.device)
        if result.share_id is None:
            held = len(self.state.holders(result.device)) > 1
        else:
            held = index is not None and bool(view.exclusive >> index & 1)
        return held or (index is not None and view.overdrawn(index))
