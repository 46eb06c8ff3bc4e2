"""presses(): whether a change is one that somebody waits for, or may be looked at together with others a moment later.

In: an object before and after a change, who names which claim, what is being written. Out: yes or no. Serving a pod brings five or six
changes, and two of them let it go on: the pod names its claim, and the claim has its devices. The rest wakes no pass of its own:
the pod is made, its claim is made before it is named, the claim has its finalizer, a partition is being cut, the gate is gone, the pod is
bound, starts and runs. Of the pods of a group those let it go on with which enough of them have their devices.
What is not known to be of this kind presses.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Protocol

from apportion.api.contract import GATE
from apportion.api.partition import Partition, Phase
from apportion.cluster import kinds
from apportion.cluster.assumedallocations import AssumedAllocations
from apportion.cluster.indexes.podindex import PodIndex
from apportion.cluster.kinds import ResourceKind
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

_UNCUT: Final = (None, Phase.PENDING, Phase.CREATING)


class Known(Protocol):
    """What is known after the change (`Snapshot`)."""

    pod_index: PodIndex
    assumed: AssumedAllocations

    def users(self, claim: Claim) -> Iterable[Pod]:
        """Return the pods that name a claim."""


def presses(kind: ResourceKind, old: Any, new: Any, known: Known) -> bool:
    """Say whether a change presses. `old` None: the object is new; `new` None: it is deleted."""
    if new is None:
        return True
    match kind:
        case kinds.PODS:
            return not (_is_beside(new) or _awaits_its_claims(new) or _goes_on(old, new))
        case kinds.CLAIMS:
            return not (
                _awaits_its_pod(old, new, known.pod_index)
                or _keeps_its_devices(old, new)
                or _is_being_written(old, new, known.assumed)
                or _awaits_its_group(old, new, known)
            )
        case kinds.PARTITIONS:
            return not _is_being_cut(old, new)
        case kinds.POLICIES | kinds.QUOTAS:
            return old is None or old.spec != new.spec  # otherwise its status was written
        case kinds.DEFRAGS:
            return False
    return True


def _is_beside(pod: Pod) -> bool:
    """Say whether a pod asks for no devices: it takes room of a node, as long as it runs."""
    return not pod.claims and not pod.gates and not pod.finished and not pod.deleting


def _awaits_its_claims(pod: Pod) -> bool:
    """Say whether controller-manager has yet to make a claim of the pod, which needs all of them."""
    named = all(entry.claim or entry.needless for entry in pod.claims)
    return not named and not pod.finished and not pod.deleting


def _goes_on(old: Pod | None, new: Pod) -> bool:
    """Say whether a pod that only our gate may have kept from its node has lost it, was bound, starts or runs."""
    if old is None or old.gates not in ((), (GATE,)) or new.gates or new.finished:
        return False
    before = replace(new, gates=old.gates, scheduled_at=old.scheduled_at, shown=old.shown)
    before = replace(before, nominated=old.nominated)
    return replace(before, node=old.node, phase=old.phase, started=old.started) == old


def _awaits_its_pod(old: Claim | None, new: Claim, pods: PodIndex) -> bool:
    """Say whether a claim without devices was made for a pod that does not name it yet."""
    if new.owner_pod is None or new.deleting or GATE in new.annotations:
        return False
    allocated = new.allocation is not None or (old is not None and old.allocation is not None)
    return not allocated and not pods.has_users(new.namespace, new.name)


def _keeps_its_devices(old: Claim | None, new: Claim) -> bool:
    """Say whether a claim with devices was reserved, or its status says more of them."""
    if old is None or old.allocation is None or new.deleting:
        return False
    return replace(new, version=old.version, reserved_for=old.reserved_for) == old


def _is_being_written(old: Claim | None, new: Claim, assumed: AssumedAllocations) -> bool:
    """Say whether a claim without devices changed, for instance has its finalizer, and the devices that it was given are being written."""
    if old is None or old.allocation is not None or new.allocation is not None or new.deleting:
        return False
    return assumed.get(new.uid) is not None


def _awaits_its_group(old: Claim | None, new: Claim, known: Known) -> bool:
    """Say whether a claim has got its devices, and too few of the groups' pods have theirs: those of the others are being written."""
    if old is None or old.allocation is not None or new.allocation is None or new.deleting:
        return False
    users = list(known.users(new))
    return bool(users) and all(_is_of_waiting_group(pod, known) for pod in users)


def _is_of_waiting_group(pod: Pod, known: Known) -> bool:
    group = pod.group
    if group is None or group.native or group.goes_first or GATE not in pod.gates:
        return False
    waiting = known.assumed.waiting_members(pod.namespace, group.name)
    return known.pod_index.others(pod.namespace, group.name, waiting) < group.least


def _is_being_cut(old: Partition | None, new: Partition) -> bool:
    """Say whether a partition was asked for, or its agent has begun to cut it."""
    if new.status.phase not in _UNCUT or new.metadata.deletion_timestamp is not None:
        return False
    return old is None or old.spec == new.spec
