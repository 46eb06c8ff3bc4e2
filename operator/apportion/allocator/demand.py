"""Demand: claims that one node must serve together, and the limits of the choice."""

from collections.abc import Iterator
from dataclasses import dataclass

from apportion.allocator.facts.host import HostDemand
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.taint import Toleration


@dataclass(frozen=True, slots=True)
class Demand:
    """Claims to allocate on one node, all of them or none."""

    claims: tuple[Claim, ...]
    nodes: frozenset[str] | None = None
    """The nodes that may be chosen; None: every node."""
    excluded: frozenset[DeviceId] = frozenset()
    """Devices not to choose now, whatever their state (for example where a partition could not be created)."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations added to those of every request; not copied into the results."""
    host: HostDemand | None = None
    """The cpu and memory that the pods request; None: devices alone decide."""
    seed: str = ""
    """Input of the share IDs, together with claims and devices; must differ per attempt."""

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)
