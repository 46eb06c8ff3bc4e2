"""PartitionControl: the control side of partitions, as far as scheduling needs it."""

from collections.abc import Iterator
from typing import Protocol

from apportion.api.partition import Phase
from apportion.dra.claim import Claim


class PartitionControl(Protocol):
    """Makes, keeps and removes partitions."""

    def steps(self) -> Iterator[None]:
        """Look at what changed since the last plan, so that `reserve` takes a moment; yields where others may run."""

    def reserve(self) -> bool:
        """Keep claims off what layouts want; says whether that was planned anew, so that there is something to do."""

    def wake(self) -> None:
        """Let the task that writes Partition objects act soon."""

    def phase(self, claim: Claim) -> Phase | None:
        """Return the worst phase of the partitions behind a claim."""
