"""AssumedAllocations: allocations that we decided and the watch has not shown yet; Deallocation: one that others ended.

In: decisions, write results, observed claims. Out: which devices are taken although no claim in the snapshot says so.
An entry lives from the decision until the watch has delivered our own write (or a later state), or the write failed.
"""

from dataclasses import dataclass, replace

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim


@dataclass(frozen=True, slots=True)
class Assumption:
    """One allocation whose write is under way."""

    allocation: Allocation
    written: int | None = None
    """resourceVersion of our write; None while it is in flight."""


@dataclass(frozen=True, slots=True)
class Deallocation:
    """An allocation that somebody else cleared."""

    claim: Claim
    """The claim as it is now."""
    allocation: Allocation
    """What it had."""
    reserved_for: frozenset[str] = frozenset()
    """UIDs of the pods for which it was reserved just before."""

    def is_refusal_for(self, pod: str) -> bool:
        """Say whether kube-scheduler cleared it because it could not place this pod (UID) on the node.

        The scheduler clears what no pod has reserved, or only the very pod that it cannot place (dynamicresources
        PostFilter). A claim that other pods had reserved was deallocated by controller-manager, because they are gone.
        """
        return not self.reserved_for or pod in self.reserved_for


class AssumedAllocations:
    """Assumptions by claim UID."""

    def __init__(self) -> None:
        self._open: dict[str, Assumption] = {}

    def assume(self, uid: str, allocation: Allocation) -> None:
        """Count the allocation as taken from now on."""
        self._open[uid] = Assumption(allocation)

    def written(self, uid: str, version: str) -> None:
        """Note that the API server took the write; it stays assumed until the watch delivers this version."""
        if uid in self._open:
            self._open[uid] = replace(self._open[uid], written=number(version))

    def forget(self, uid: str) -> Assumption | None:
        """Drop an assumption: the write failed, or the claim is gone."""
        return self._open.pop(uid, None)

    def get(self, uid: str) -> Assumption | None:
        """Return the assumption about a claim, if there is one."""
        return self._open.get(uid)

    def echoed(self, claim: Claim) -> Assumption | None:
        """Return and drop the assumption if this version of the claim is our write, or later than it."""
        assumption = self._open.get(claim.uid)
        if assumption is None or assumption.written is None or number(claim.version) < assumption.written:
            return None
        return self._open.pop(claim.uid)

    def __len__(self) -> int:
        return len(self._open)


def number(version: str) -> int:
    """Return a resourceVersion as the number that it is since Kubernetes 1.35 (KEP-5504); 0 when it is none."""
    return int(version) if version.isdecimal() else 0
