"""How long a partition has been waiting on its card, and for whom it failed.

In: what a round found. Out: when it is tried the next time.
"""

from dataclasses import dataclass

from apportion.api.partition import Partition


@dataclass(slots=True)
class Wait:
    """How long a partition has been waiting, and when it is tried again."""

    since: float
    """When it was first refused."""
    pause: float
    due: float
    holder: str = ""
    """UID of the holder that it failed for."""

    def failed_for(self, partition: Partition, pause: float) -> bool:
        """Say whether it failed for this holder; `pause` is the pause after failures."""
        return self.pause >= pause and self.holder == holder_of(partition)


def holder_of(partition: Partition) -> str:
    """Return the UID of who holds a partition, "" for nobody."""
    return partition.spec.holder.uid if partition.spec.holder is not None else ""
