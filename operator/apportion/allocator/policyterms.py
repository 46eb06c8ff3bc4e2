"""Terms of an AllocationPolicy: strategy, ladder and demand mix in the allocator's words.

In: the policy's spec. Out: Terms. No other part of the allocator reads the operator's own API.
"""

from functools import lru_cache

from apportion.allocator.closeness.ladder import DEFAULT, Ladder, Rung
from apportion.allocator.pricing.demandmix import DemandEntry, DemandMix
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.api.ladder import LadderRung, LadderScope, RungSplit
from apportion.api.policy import AllocationPolicySpec, Demand, DemandSource


def terms_of(policy: AllocationPolicySpec) -> Terms:
    """Return the terms of a policy."""
    return Terms(Strategy(policy.strategy.value), ladder_of(policy), _mix(policy.demand))


def ladder_of(policy: AllocationPolicySpec) -> Ladder | None:
    """Return the ladder of a policy: DEFAULT if it names none, None if its list is empty."""
    return _ladder(policy.ladder, policy.ladder_scope)


@lru_cache(maxsize=256)
def _ladder(rungs: tuple[LadderRung, ...] | None, scope: LadderScope) -> Ladder | None:
    across = scope is LadderScope.CLUSTER
    if rungs is None:
        return Ladder(DEFAULT.rungs, across)
    return Ladder(tuple(_rung(rung) for rung in rungs), across) if rungs else None


def _rung(rung: LadderRung) -> Rung:
    return Rung(
        attribute=rung.attribute,
        drivers=frozenset(rung.drivers),
        per_driver=tuple((own.driver, own.attribute) for own in rung.per_driver),
        fill=rung.fill is not None,
        order=tuple((row.take, row.free) for row in rung.fill.order) if rung.fill is not None else (),
        even=rung.split is RungSplit.EVEN,
    )


def _mix(demand: Demand) -> DemandMix | None:
    """Return the mix that a policy expects (`spec.demand`); None where it is to be learnt."""
    if demand.source is DemandSource.LEARNED:
        return None
    return tuple(DemandEntry(share.weight, profile=share.profile) for share in demand.profiles)
