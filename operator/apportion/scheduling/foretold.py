"""The demand that an AllocationPolicy foretells: its field in, a mix for the allocator out."""

from apportion.allocator.worth.mix import Entry, Mix
from apportion.api.policy import Demand, DemandSource


def foretold(demand: Demand) -> Mix | None:
    """Return the mix of a policy; None where the demand is to be learnt."""
    if demand.source == DemandSource.LEARNED:
        return None
    return tuple(Entry(share.weight, profile=share.profile) for share in demand.profiles)
