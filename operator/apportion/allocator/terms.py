"""Terms: how to choose among nodes and devices that can all serve: the part of a call that an AllocationPolicy sets.

In: an AllocationPolicy, or nothing. Out: strategy, ladder and demand mix.
"""

from dataclasses import dataclass

from apportion.allocator.closeness.ladder import Ladder, ladder_of
from apportion.allocator.pricing.demandmix import DemandEntry, DemandMix
from apportion.allocator.search.scorer import Strategy
from apportion.api.policy import AllocationPolicySpec, Demand, DemandSource


@dataclass(frozen=True, slots=True)
class Terms:
    """Strategy, ladder and demand mix. Compared by content."""

    strategy: Strategy = Strategy.PACK
    ladder: Ladder | None = None
    """How to keep a claim's devices close together; FirstFit ignores it."""
    mix: DemandMix | None = None
    """The demand that LeastFragmentation keeps room for; None: the mix that the state has learnt."""

    @classmethod
    def of(cls, policy: AllocationPolicySpec) -> "Terms":
        """Return the terms of a policy."""
        return cls(Strategy(policy.strategy.value), ladder_of(policy), _mix(policy.demand))


DEFAULT_TERMS = Terms()


def _mix(demand: Demand) -> DemandMix | None:
    """Return the mix that a policy expects (`spec.demand`); None where it is to be learnt."""
    if demand.source is DemandSource.LEARNED:
        return None
    return tuple(DemandEntry(share.weight, profile=share.profile) for share in demand.profiles)
