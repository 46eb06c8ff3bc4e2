"""The demand that an AllocationPolicy foretells: its field in, a mix for the allocator out."""

from apportion.allocator.pricing.demandmix import DemandEntry, DemandMix
from apportion.api.policy import Demand, DemandSource


def foretold(demand: Demand) -> DemandMix | None:
    """Return the mix of a policy; None where the demand is to be learnt."""
    if demand.source == DemandSource.LEARNED:
        return None
    return tuple(DemandEntry(share.weight, profile=share.profile) for share in demand.profiles)
