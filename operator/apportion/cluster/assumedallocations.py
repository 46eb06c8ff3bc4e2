"""AssumedAllocations: allocations that we decided and the watch has not shown yet; Deallocation: one that others ended.

In: decisions, what became of their writes, observed claims. Out: which devices are taken although no claim in the snapshot says so.

An entry lives from the decision until the write has certainly failed, or the watch
has shown a version of the claim that is later than the one on which the write
depends: then it was carried out before that version, or never will be (ADR 13).
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from apportion.cluster.resourceversion import number
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod


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
    members: tuple[tuple[tuple[str, str], str], ...] = ()
    """The pods of groups that wait for it: namespace and name of the group, UID of the pod."""

    def send(self, version: str) -> None:
        """Note that the write is sent, and that the server refuses it unless the claim has this resourceVersion."""
        self.depends = number(version)

    def is_overtaken_by(self, claim: Claim | None) -> bool:
        """Say whether a claim's version is later than the one on which the write depends: it was carried out before, or never will be."""
        return claim is not None and self.depends is not None and number(claim.version) > self.depends


@dataclass(frozen=True, slots=True)
class Deallocation:
    """An allocation that was cleared, or went with its claim."""

    claim: Claim
    """The claim as it is now, or was at last, without what it asks for and is labelled with: a replica that does not act keeps thousands."""
    allocation: Allocation
    """What it had."""
    reserved_for: frozenset[str] = frozenset()
    """UIDs of the pods for which it was reserved just before."""
    former: frozenset[str] = frozenset()
    """UIDs of pods for which it had been reserved before those, and that may run."""
    ours: bool = False
    """Whether we cleared it, or nobody did: kube-scheduler deletes no claim."""

    @classmethod
    def of(
        cls,
        claim: Claim,
        allocation: Allocation,
        before: Claim | None,
        former: frozenset[str],
        *,
        ours: bool,
    ) -> "Deallocation":
        """Return that of a claim as it is now; `before`: its last version with devices, None: nobody saw it; `former` as the field."""
        kept = replace(claim, slots=(), constraints=(), config=(), annotations={}, labels={}, finalizers=())
        reserved = frozenset(user.uid for user in before.reserved_for) if before is not None else frozenset()
        return cls(kept, allocation, reserved, former, ours)

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
        self._members: dict[tuple[str, str], Counter[str]] = {}
        """How many assumptions each pod of a group waits for, by group."""

    def assume(self, uid: str, allocation: Allocation, pods: Iterable[Pod] = ()) -> Assumption:
        """Count the allocation as taken from now on; `pods`: those that name the claim.

        Raises RuntimeError where a former decision still counts: its devices would be free while it may be written. Nobody decides twice.
        """
        if uid in self._open:
            raise RuntimeError(
                f"claim {uid} is decided a second time while the first decision may be written"
            )
        members = tuple(((pod.namespace, pod.group.name), pod.uid) for pod in pods if pod.group is not None)
        made = self._open[uid] = Assumption(uid, allocation, members=members)
        for group, pod in members:
            self._members.setdefault(group, Counter())[pod] += 1
        return made

    def holds(self, assumption: Assumption) -> bool:
        """Say whether the assumption still counts: its claim may be settled, gone or decided anew."""
        return self._open.get(assumption.uid) is assumption

    def forget(self, uid: str) -> Assumption | None:
        """Drop the assumption about a claim, if there is one."""
        dropped = self._open.pop(uid, None)
        for group, pod in dropped.members if dropped is not None else ():
            waiting = self._members[group]
            waiting[pod] -= 1
            if not waiting[pod]:
                del waiting[pod]
            if not waiting:
                del self._members[group]
        return dropped

    def get(self, uid: str) -> Assumption | None:
        """Return the assumption about a claim, if there is one."""
        return self._open.get(uid)

    def waiting_members(self, namespace: str, group: str) -> Collection[str]:
        """Return the pods (UIDs) of a group that wait for the watch to show what we decided for them."""
        return self._members.get((namespace, group), ())

    def settle(self, claim: Claim) -> Assumption | None:
        """Return and drop the assumption if this version of the claim is later than the one on which its write depends."""
        assumption = self._open.get(claim.uid)
        return self.forget(claim.uid) if assumption and assumption.is_overtaken_by(claim) else None

    def lost(self, claim: Claim | None) -> Assumption | None:
        """Return the assumption whose write depends on a version that a restored claim has lost: no server carries it out any more."""
        assumption = self._open.get(claim.uid) if claim is not None else None
        if claim is None or assumption is None or number(claim.version) >= (assumption.depends or 0):
            return None
        return assumption

    def __len__(self) -> int:
        return len(self._open)
