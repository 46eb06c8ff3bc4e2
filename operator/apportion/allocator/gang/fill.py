"""GangFill: give the members of a gang devices on some nodes, one after another.

In: members in an order, nodes. Out: those that fit there are placed; and the first one that was refused. Members of one kind are
interchangeable: one refused member speaks for its kind; one that needs company is tried once more when others are placed. Yields after each member, and after each node, or slice of its search, that is searched for several devices; members that others made impossible
meanwhile are placed anew.
"""

from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from apportion.allocator.allocate import allocate, catching_up, decide, is_slow
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.gang.count import kind_of
from apportion.allocator.gang.members import Member
from apportion.allocator.gang.placed import PlacedMembers
from apportion.dra.device import DeviceId

RefusedMember: TypeAlias = tuple[int, Refusal | None]
"""A member, and why it was refused; None: no node fits its pods, or nobody asked for the reason."""


@dataclass(slots=True)
class GangFill:
    """The members of a gang, and those of them that are placed."""

    placed: PlacedMembers
    members: Sequence[Member]
    enough: int
    """Pods with which the gang is served."""
    most: int
    """Pods that may have devices."""
    prefer: Mapping[DeviceId, int]
    asked: int = 0
    """How many members were tried."""
    slow: dict[object, bool] = field(default_factory=dict)
    """Whether the search of a node takes long, by kind of member."""
    refused: RefusedMember | None = None
    """The first member that was refused."""

    @property
    def served(self) -> int:
        """Return how many pods have their devices."""
        return sum(self.members[index].pods for index in self.placed.decisions)

    def waiting(self, order: Sequence[int]) -> list[int]:
        """Return the members of an order that have no devices."""
        return [index for index in order if index not in self.placed.decisions]

    def kinds(self, order: Sequence[int]) -> Counter[object]:
        """Return how many members of each kind there are in an order."""
        return Counter(kind_of(self.members, index) for index in order)

    def fill(
        self, order: Sequence[int], nodes: frozenset[str] | None = None, *, need: int = 0
    ) -> Generator[None, None, None]:
        """Place members on these nodes (None: on any) in an order; ends early once `need` pods are out of reach.

        Raises BrokenInput where no state could serve the first member that is refused.
        """
        placed, members = self.placed, self.members
        waiting, later, company = deque(order), list[int](), False
        hopeless: set[object] = set()
        served = self.served
        left = served + sum(members[index].pods for index in order)
        while left >= need:
            if not waiting and company:
                waiting, later, company = deque(later), [], False
            if not waiting:
                break
            index = waiting.popleft()
            pods, kind = members[index].pods, kind_of(members, index)
            if served + pods > self.most:
                continue
            if kind not in hopeless:
                self.asked += 1
                demand = self._demand(index, nodes)
                if demand is not None and self._is_slow(index, demand):
                    paused = False
                    for _ in self._search(index, demand):
                        paused = True
                        yield
                    for lost in reversed(placed.drop_lost()) if paused else ():
                        served -= members[lost].pods
                        waiting.appendleft(lost)
                    demand = self._demand(index, nodes) if paused else demand
                decision = self._decision(index, demand)
                if demand is not None and decision is not None:
                    placed.put(index, demand, decision)
                    served += pods
                    company = True
                    yield
                    for lost in reversed(placed.drop_lost()):
                        served -= members[lost].pods
                        waiting.appendleft(lost)
                    continue
                if self.refused is None:
                    self.refused = index, self._refusal(index, demand)
                if placed.demands.awaits(index):
                    later.append(index)
                    continue
                hopeless.add(kind)
            left -= pods

    def _is_slow(self, index: int, demand: Demand) -> bool:
        """Say whether the search of a node for a member takes long: its devices are drawn together."""
        kind = kind_of(self.members, index)
        if kind not in self.slow:
            self.slow[kind] = is_slow(self.placed.state, demand, self.members[index].terms)
        return self.slow[kind]

    def _search(self, index: int, demand: Demand) -> Iterator[bool]:
        """Search the nodes that the decision about a member needs, one at a time."""
        return catching_up(self.placed.state, demand, self.members[index].terms, prefer=self.prefer)

    def _demand(self, index: int, nodes: frozenset[str] | None) -> Demand | None:
        demand = self.placed.demands.of(index)
        if demand is None or nodes is None:
            return demand
        allowed = nodes if demand.nodes is None else nodes & demand.nodes
        return replace(demand, nodes=allowed) if allowed else None

    def _decision(self, index: int, demand: Demand | None) -> Decision | None:
        if demand is None:
            return None
        return decide(self.placed.state, demand, self.members[index].terms, prefer=self.prefer)

    def _refusal(self, index: int, demand: Demand | None) -> Refusal | None:
        if demand is None:
            return None
        answer = allocate(self.placed.state, demand, self.members[index].terms, prefer=self.prefer)
        if isinstance(answer, Decision):
            raise TypeError(f"member {index} was refused and is served")
        return answer
