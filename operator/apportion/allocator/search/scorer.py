"""What a strategy must be able to say, and the strategies by name."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol, TypeAlias, TypeGuard

from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.search import Search

Score: TypeAlias = tuple[float, ...]


class Strategy(Enum):
    """How to choose among places that would all do."""

    FIRST_FIT = "FirstFit"
    """Upstream's choice: the first node by name, the first devices in the order of pools, slices and devices."""
    PACK = "Pack"
    """The fullest node, the most broken device: keep whole what is whole."""
    SPREAD = "Spread"
    """The emptiest node, the emptiest device."""
    LEAST_FRAGMENTATION = "LeastFragmentation"
    """The place that keeps the most future demand placeable, by what claims asked for of late or a policy foretells."""


Contention: TypeAlias = tuple[int, ...]
"""What a choice takes from others, in a form whose cost changes with the cluster: part of an answer, unlike the cost."""


class Harmful(Protocol):
    """A strategy part of whose score depends on the whole cluster."""

    def harm(self, search: Search) -> Contention:
        """Return what a finished search takes from others."""
        ...

    def toll(self, harm: Contention) -> float:
        """Return what that costs now: it is added to the first part of the score."""
        ...


def is_harmful(scorer: object) -> TypeGuard[Harmful]:
    """Say whether a strategy is one of those; asked for every node, so not of the protocol itself, which is slow."""
    return hasattr(type(scorer), "toll")


class Scorer(Protocol):
    """A strategy at work."""

    scans: bool
    """Whether every node is looked at; otherwise the first that serves is taken."""

    def order(self, search: Search, option: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask, the one to try first first."""
        ...

    def score(self, search: Search) -> Score:
        """Rate a finished search; the smallest wins."""
        ...
