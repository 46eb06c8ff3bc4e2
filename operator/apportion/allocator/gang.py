"""allocate_gang(): choose devices for several demands of a gang: for all, for enough of them, or for none.

In: a state, members with a demand each; members may get different nodes. Out: a decision per member, or the first member
that was refused. If an earlier member took the devices that a later one needs, the next try starts with the refused one; the
tries are bounded, each is one pass over the members. The state is unchanged at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.allocator.tentative import Tentative
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId

TRIES = 16
"""Orders of members tried at most."""

MemberDemand: TypeAlias = Callable[[int, Mapping[int, str]], Demand | None]
"""Returns a member's demand, given the nodes of the members served so far; None: no node fits."""


@dataclass(frozen=True, slots=True)
class Member:
    """One demand of a gang."""

    pods: int = 1
    """Number of pods that the demand serves."""
    terms: Terms = DEFAULT_TERMS


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


def allocate_gang(
    state: State,
    members: Sequence[Member],
    demand_of: MemberDemand,
    *,
    enough: int,
    prefer: Mapping[DeviceId, int] | None = None,
) -> GangServed | GangRefused:
    """Serve as many members as fit if they have at least `enough` pods together, else none.

    Raises BrokenInput if a member's claims cannot be served by any state as they are written.
    """
    order = list(range(len(members)))
    failed: GangRefused | None = None
    tried: set[tuple[int, ...]] = set()
    while tuple(order) not in tried and len(tried) < TRIES:
        tried.add(tuple(order))
        decisions, refused = _round(state, members, demand_of, order, enough, prefer or {})
        served = sum(members[index].pods for index in decisions)
        if served >= enough:
            return GangServed(tuple(decisions.get(index) for index in range(len(members))))
        blocked, refusal = refused
        if failed is None:
            failed = GangRefused(blocked, refusal, served)
        order.remove(blocked)
        order.insert(0, blocked)
    if failed is None:
        raise TypeError("a gang needs members")
    return failed


def _round(
    state: State,
    members: Sequence[Member],
    demand_of: MemberDemand,
    order: Sequence[int],
    enough: int,
    prefer: Mapping[DeviceId, int],
) -> tuple[dict[int, Decision], tuple[int, Refusal | None]]:
    """Try the members in an order; return the decisions by member, and the first refused member with its refusal."""
    demands: dict[int, Demand] = {}
    refused: tuple[int, Refusal | None] | None = None
    left = sum(member.pods for member in members)
    with Tentative(state, demands) as tentative:
        for index in order:
            member = members[index]
            demand = demand_of(index, {other: placed.node for other, placed in tentative.placed.items()})
            refusal: Refusal | None = None
            if demand is not None:
                answer = allocate(state, demand, member.terms, prefer=prefer)
                if isinstance(answer, Decision):
                    demands[index] = demand
                    tentative.put(index, answer)
                    continue
                refusal = answer
            left -= member.pods
            refused = refused or (index, refusal)
            if left < enough:
                break
        return dict(tentative.placed), refused or (order[0], None)
