"""Terms: how to choose among nodes and devices that can all serve.

An AllocationPolicy sets them (`allocator.policyterms`); a caller without one names them.
"""

from dataclasses import dataclass

from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.search.scorer import Strategy


@dataclass(frozen=True, slots=True)
class Terms:
    """Strategy, ladder and demand mix. Compared by content."""

    strategy: Strategy = Strategy.PACK
    ladder: Ladder | None = None
    """How to keep a claim's devices close together; FirstFit ignores it."""
    mix: DemandMix | None = None
    """The demand that LeastFragmentation keeps room for; None: the mix that the state has learnt."""


DEFAULT_TERMS = Terms()
