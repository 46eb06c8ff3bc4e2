"""Terms: how to choose among nodes and devices that can all serve. One value for a policy's part of a question.

In: an AllocationPolicy, or nothing. Out: strategy, ladder and demand mix.
"""

from dataclasses import dataclass
from functools import lru_cache

from apportion.allocator.closeness.ladder import DEFAULT, Ladder, Rung
from apportion.allocator.pricing.demandmix import DemandEntry, DemandMix
from apportion.allocator.search.scorer import Strategy
from apportion.api.ladder import LadderRung, LadderScope, RungSplit
from apportion.api.policy import AllocationPolicySpec, Demand, DemandSource


@dataclass(frozen=True, slots=True)
class Terms:
    """Strategy, ladder and demand mix. Compared by content."""

    strategy: Strategy = Strategy.PACK
    ladder: Ladder | None = None
    """Which devices to keep close together; FirstFit pays no attention to it."""
    mix: DemandMix | None = None
    """The demand that LeastFragmentation keeps room for; None: what the state has learnt."""

    @classmethod
    def of(cls, policy: AllocationPolicySpec) -> "Terms":
        """Return the terms of a policy."""
        return cls(Strategy(policy.strategy.value), ladder_of(policy), _mix(policy.demand))


DEFAULT_TERMS = Terms()


def ladder_of(policy: AllocationPolicySpec) -> Ladder | None:
    """Return the ladder of a policy: the usual one where it names none, None where it wants none."""
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
