"""What is asked of the allocator: claims that must be served together, and where."""

from collections.abc import Iterator
from dataclasses import dataclass

from apportion.allocator.facts.host import HostDemand
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.taint import Toleration


@dataclass(frozen=True, slots=True)
class Demand:
    """Claims that go to one node, all of them or none."""

    claims: tuple[Claim, ...]
    nodes: frozenset[str] | None = None
    """The nodes that may be chosen; None: every node."""
    excluded: frozenset[DeviceId] = frozenset()
    """Devices not to choose now, whatever their state (a partition there could not be cut, say)."""
    tolerations: tuple[Toleration, ...] = ()
    """What every request puts up with on top of its own; not copied into the results."""
    host: HostDemand | None = None
    """What the pods take of a node beside devices; None: devices alone decide."""
    seed: str = ""
    """Share IDs are derived from this, the claims and the devices; give something that differs per attempt."""

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)
