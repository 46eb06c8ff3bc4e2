"""Terms: how to choose among nodes and devices that can all serve. One value for a policy's part of a question."""

from dataclasses import dataclass

from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.search.scorer import Strategy


@dataclass(frozen=True, slots=True)
class Terms:
    """Strategy, ladder and demand mix. Compared by content."""

    strategy: Strategy = Strategy.PACK
    ladder: Ladder | None = None
    """Which devices to keep close together; FirstFit pays no attention to it."""
    mix: DemandMix | None = None
    """The demand that LeastFragmentation keeps room for; None: what the state has learnt."""


DEFAULT_TERMS = Terms()
