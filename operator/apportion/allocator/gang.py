"""allocate_gang(): choose devices for several demands of a gang: for all, for enough of them, or for none.

In: a state, members with a demand each; members may get different nodes. Out: a decision per member; or the first member
that was refused; or that too few devices are free, which is found by counting. If an earlier member took the devices that a
later one needs, the next try starts with the refused one. Members of one kind are interchangeable: orders that differ only
in them are one order, and one refused member speaks for its kind. The state is unchanged at the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import free_devices, least_devices
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId

TRIES = 16
"""Orders of members tried at most."""
MOST_ASKED = 2048
"""Members in all orders after the first: a large gang is tried in fewer orders."""
MOST_KINDS = 64
"""Kinds of members for which free devices are counted before members are tried."""


class MemberDemands(Protocol):
    """The demands of the members, each beside the pods of the members that are served before it."""

    def of(self, member: int) -> Demand | None:
        """Return a member's demand; None: no node fits its pods."""

    def serve(self, member: int, node: str) -> None:
        """Count the pods of a member on the node that serves it in this try."""

    def restart(self) -> None:
        """Begin another try: no member is served."""


@dataclass(frozen=True, slots=True)
class Member:
    """One demand of a gang."""

    pods: int = 1
    """Number of pods that the demand serves."""
    terms: Terms = DEFAULT_TERMS
    kind: object = None
    """Equal for members that request the same, so that any of them could stand for another; None: like no other."""


@dataclass(frozen=True, slots=True)
class GangServed:
    """Enough members can be served."""

    decisions: tuple[Decision | None, ...]
    """Per member, in the order given; None for a member left out because enough others are served."""


@dataclass(frozen=True, slots=True)
class GangRefused:
    """Too few members can be served; none is."""

    member: int
    """The first member refused when they are tried in the order given."""
    refusal: Refusal | None
    """Its refusal; None: no node fits its pods."""
    served: int
    """Pods that could be served in that try."""


@dataclass(frozen=True, slots=True)
class GangTooLarge:
    """Fewer devices are free than the members need together; none was tried."""

    needed: int
    """The fewest devices with which enough members could be served."""
    free: int
    """Free devices that some member could be allocated."""


def allocate_gang(
    state: State,
    members: Sequence[Member],
    demands: MemberDemands,
    *,
    enough: int,
    prefer: Mapping[DeviceId, int] | None = None,
) -> GangServed | GangRefused | GangTooLarge:
    """Serve as many members as fit if they have at least `enough` pods together, else none.

    A gang of one kind asks each member at most once; otherwise at most TRIES orders are tried.

    Raises BrokenInput if a member's claims cannot be served by any state as they are written.
    """
    gang = _Gang(state, members, demands, enough, prefer or {})
    too_large = gang.counted()
    if too_large is not None:
        return too_large
    failed: GangRefused | None = None
    asked = 0
    for order in gang.orders():
        decisions, refused = gang.tried(order, explain=failed is None)
        served = sum(members[index].pods for index in decisions)
        if served >= enough:
            return GangServed(tuple(decisions.get(index) for index in range(len(members))))
        if failed is None:
            failed = GangRefused(*refused, served)
        else:
            asked += len(members)
        if asked + len(members) > MOST_ASKED:
            break
        order.remove(refused[0])
        order.insert(0, refused[0])
    if failed is None:
        raise TypeError("a gang needs members")
    return failed


_Refused: TypeAlias = tuple[int, Refusal | None]
"""A member, and why it was refused."""


@dataclass(frozen=True, slots=True)
class _Gang:
    """The arguments of one call."""

    state: State
    members: Sequence[Member]
    demands: MemberDemands
    enough: int
    prefer: Mapping[DeviceId, int]

    def kind(self, index: int) -> object:
        kind = self.members[index].kind
        return index if kind is None else (kind,)

    def orders(self) -> Iterator[list[int]]:
        """Yield a list that the caller reorders, while its order is a new one."""
        order = list(range(len(self.members)))
        tried: set[tuple[object, ...]] = set()
        while len(tried) < TRIES and (kinds := tuple(map(self.kind, order))) not in tried:
            tried.add(kinds)
            yield order

    def counted(self) -> GangTooLarge | None:
        """Return the shortage if fewer devices are free than enough members need, whatever they are."""
        first: dict[object, int] = {}
        for index in range(len(self.members)):
            first.setdefault(self.kind(index), index)
        if len(first) > MOST_KINDS:
            return None
        self.demands.restart()
        asked = {kind: self.demands.of(index) for kind, index in first.items()}
        least = {
            kind: least_devices(self.state, demand) for kind, demand in asked.items() if demand is not None
        }
        # The fewest devices for enough pods: members that need the fewest a pod, the last of them in part.
        rows = sorted(
            (least[self.kind(index)] / member.pods, least[self.kind(index)], member.pods)
            for index, member in enumerate(self.members)
            if self.kind(index) in least
        )
        needed, missing = 0, self.enough
        for _, devices, pods in rows:
            needed += devices if pods <= missing else devices * missing // pods
            missing -= min(pods, missing)
        if missing:
            return None  # some members fit no node at all, which trying them tells
        free = free_devices(self.state, [demand for demand in asked.values() if demand is not None])
        return GangTooLarge(needed, free) if free is not None and free < needed else None

    def tried(self, order: Sequence[int], *, explain: bool) -> tuple[dict[int, Decision], _Refused]:
        """Try the members in an order; return the decisions by member, and the first refused member."""
        demands: dict[int, Demand] = {}
        refused: _Refused | None = None
        hopeless: set[object] = set()
        left = sum(member.pods for member in self.members)
        self.demands.restart()
        with Tentative(self.state, demands) as tentative:
            for index in order:
                kind, terms = self.kind(index), self.members[index].terms
                if kind not in hopeless:
                    demand = self.demands.of(index)
                    if demand is not None:
                        decision = decide(self.state, demand, terms, prefer=self.prefer)
                        if decision is not None:
                            demands[index] = demand
                            tentative.put(index, decision)
                            self.demands.serve(index, decision.node)
                            continue
                    hopeless.add(kind)
                    if refused is None:
                        refused = index, self._refusal(index, demand) if explain else None
                left -= self.members[index].pods
                if left < self.enough:
                    break
            return dict(tentative.placed), refused or (order[0], None)

    def _refusal(self, index: int, demand: Demand | None) -> Refusal | None:
        """Return why a member is refused now; raises BrokenInput where no state could serve it."""
        if demand is None:
            return None
        answer = allocate(self.state, demand, self.members[index].terms, prefer=self.prefer)
        if isinstance(answer, Decision):
            raise TypeError(f"member {index} was refused and is served")
        return answer
