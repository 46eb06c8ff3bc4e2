"""An allocation that somebody else cleared: what the snapshot tells the cycle."""

from dataclasses import dataclass

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim


@dataclass(frozen=True, slots=True)
class TakenBack:
    """An allocation that somebody else cleared."""

    claim: Claim
    """The claim as it is now."""
    allocation: Allocation
    """What it had."""
    reserved_for: frozenset[str] = frozenset()
    """UIDs of the pods for which it was reserved just before."""

    def concerns(self, pod: str) -> bool:
        """Say whether the scheduler refused this pod (UID).

        It clears what nobody has reserved, or only the very pod that it cannot place (dynamicresources PostFilter). A
        claim that others had reserved was deallocated by controller-manager, because they are gone.
        """
        return not self.reserved_for or pod in self.reserved_for
