"""AssumedAllocations: allocations that we decided and the watch has not shown yet; Deallocation: one that others ended.

In: decisions, what became of their writes, observed claims. Out: which devices are taken although no claim in the snapshot says so.

An entry lives from the decision until the write has certainly failed, or the watch
has shown a version of the claim that is later than the one on which the write
depends: then it was carried out before that version, or never will be (ADR 13).
"""

from dataclasses import dataclass

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim


@dataclass(slots=True, eq=False)
class Assumption:
    """One allocation whose write is under way. It changes while it is written: a claim's next decision is another object."""

    uid: str
    """Of the claim."""
    allocation: Allocation
    depends: int | None = None
    """resourceVersion without which the server refuses the write; None before the write was sent."""
    confirmed: bool = False
    """Whether the server said that it has carried out the write."""


@dataclass(frozen=True, slots=True)
class Deallocation:
    """An allocation that was cleared."""

    claim: Claim
    """The claim as it is now."""
    allocation: Allocation
    """What it had."""
    reserved_for: frozenset[str] = frozenset()
    """UIDs of the pods for which it was reserved just before."""
    ours: bool = False
    """Whether we cleared it."""

    def is_refusal_for(self, pod: str) -> bool:
        """Say whether kube-scheduler cleared it because it could not place this pod (UID) on the node.

        The scheduler clears what no pod has reserved, or only the very pod that it cannot place (dynamicresources
        PostFilter). A claim that other pods had reserved was deallocated by controller-manager, because they are gone.
        """
        return not self.ours and (not self.reserved_for or pod in self.reserved_for)


class AssumedAllocations:
    """Assumptions by claim UID."""

    def __init__(self) -> None:
        self._open: dict[str, Assumption] = {}

    def assume(self, uid: str, allocation: Allocation) -> Assumption:
        """Count the allocation as taken from now on."""
        made = self._open[uid] = Assumption(uid, allocation)
        return made

    def holds(self, assumption: Assumption) -> bool:
        """Say whether the assumption still counts: its claim may be settled, gone or decided anew."""
        return self._open.get(assumption.uid) is assumption

    def forget(self, uid: str) -> Assumption | None:
        """Drop the assumption about a claim, if there is one."""
        return self._open.pop(uid, None)

    def get(self, uid: str) -> Assumption | None:
        """Return the assumption about a claim, if there is one."""
        return self._open.get(uid)

    def settle(self, claim: Claim) -> Assumption | None:
        """Return and drop the assumption if this version of the claim is later than the one on which its write depends."""
        assumption = self._open.get(claim.uid)
        if assumption is None or assumption.depends is None or number(claim.version) <= assumption.depends:
            return None
        return self._open.pop(claim.uid)

    def lost(self, claim: Claim | None) -> Assumption | None:
        """Return the assumption whose write depends on a version that a restored claim has lost: no server carries it out any more."""
        assumption = self._open.get(claim.uid) if claim is not None else None
        if claim is None or assumption is None or number(claim.version) >= (assumption.depends or 0):
            return None
        return assumption

    def __len__(self) -> int:
        return len(self._open)


def number(version: str) -> int:
    """Return a resourceVersion as the number that it is since Kubernetes 1.35 (KEP-5504); 0 when it is none."""
    return int(version) if version.isdecimal() else 0
