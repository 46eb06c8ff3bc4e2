"""Several demands together: all of a gang are served, or enough of them, or nobody is.

In: a state, demands that may go to a node each. Out: a decision per demand; or the first demand that stood in the way. The
state is left as it was found. MemberDemand one demand takes what another one needed, the one that was refused goes first in the
next try; a few tries, each of one pass over the demands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.allocator.terms import DEFAULT_TERMS, Terms
from apportion.dra.device import DeviceId

TRIES = 16
"""Orders in which a gang is tried."""

MemberDemand: TypeAlias = Callable[[int, Mapping[int, str]], Demand | None]
"""A member's demand, given the nodes that other members got; None: no node can take it beside them."""


@dataclass(frozen=True, slots=True)
class Member:
    """One demand of a gang."""

    pods: int = 1
    """How many pods it serves."""
    terms: Terms = DEFAULT_TERMS


@dataclass(frozen=True, slots=True)
class GangServed:
    """Enough members can be served."""

    decisions: tuple[Decision | None, ...]
    """Per member, in their order; None for one that is left out because enough others are served."""


@dataclass(frozen=True, slots=True)
class GangRefused:
    """Too few members can be served; none is."""

    member: int
    """The first that could not be served, in the members' own order."""
    refusal: Refusal | None
    """Why; None: no node could take its pods."""
    served: int
    """How many pods could be served before that was found out."""


def allocate_gang(
    state: State,
    members: Sequence[Member],
    where: MemberDemand,
    *,
    enough: int,
    prefer: Mapping[DeviceId, int] | None = None,
) -> GangServed | GangRefused:
    """Serve members that have at least `enough` pods together, as many as fit, or none.

    Raises BrokenInput when a member's claims cannot be served by any state as they are written.
    """
    order = list(range(len(members)))
    failed: GangRefused | None = None
    tried: set[tuple[int, ...]] = set()
    while tuple(order) not in tried and len(tried) < TRIES:
        tried.add(tuple(order))
        decisions, refused = _round(state, members, where, order, enough, prefer or {})
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
    where: MemberDemand,
    order: Sequence[int],
    enough: int,
    prefer: Mapping[DeviceId, int],
) -> tuple[dict[int, Decision], tuple[int, Refusal | None]]:
    """Try the members in an order; returns the decisions by member, and the first refused one with its refusal."""
    decisions: dict[int, Decision] = {}
    refused: tuple[int, Refusal | None] | None = None
    left = sum(member.pods for member in members)
    try:
        for index in order:
            member = members[index]
            demand = where(index, {other: decision.node for other, decision in decisions.items()})
            answer = allocate(state, demand, member.terms, prefer=prefer) if demand is not None else None
            if isinstance(answer, Decision):
                decisions[index] = answer
                for number, allocation in enumerate(answer.allocations):
                    state.hold(_key(index, number), allocation.results)
                continue
            left -= member.pods
            refused = refused or (index, answer)
            if left < enough:
                break
    finally:
        for index, decision in decisions.items():
            for number in range(len(decision.allocations)):
                state.release(_key(index, number))
    return decisions, refused or (order[0], None)


def _key(member: int, number: int) -> str:
    return f"gang/{member}/{number}"
