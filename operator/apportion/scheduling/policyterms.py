"""PolicyTerms: what an AllocationPolicy tells the allocator."""

from typing import NamedTuple

from apportion.allocator.ladder.ladder import Ladder
from apportion.allocator.ladder.policy import ladder_of
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.worth.mix import Entry, Mix
from apportion.api.policy import AllocationPolicySpec, Demand, DemandSource


class PolicyTerms(NamedTuple):
    """How devices are chosen for the claims of one policy."""

    strategy: Strategy
    ladder: Ladder | None
    mix: Mix | None
    """The demand to keep room for; None: what the allocator has learnt."""

    @classmethod
    def of(cls, policy: AllocationPolicySpec) -> "PolicyTerms":
        """Return the terms of a policy."""
        return cls(Strategy(policy.strategy.value), ladder_of(policy), policy_mix(policy.demand))


def policy_mix(demand: Demand) -> Mix | None:
    """Return the mix that a policy expects (`spec.demand`); None where it is to be learnt."""
    if demand.source == DemandSource.LEARNED:
        return None
    return tuple(Entry(share.weight, profile=share.profile) for share in demand.profiles)
