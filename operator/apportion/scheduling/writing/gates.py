"""Gates: the pods from which our scheduling gate can be removed now.

In: the snapshot. Out: pods. A gate is removed only after our own watch has shown the allocation of every
claim of ours, without overlap, with the finalizer that we write, and (by policy) once the partitions behind it are cut; not while all pods that have
reserved the claim are over, because controller-manager is about to deallocate it. Pods without a managed claim lose
the gate at once: admission cannot look into claims. Of the pods that share a network device one has its gate removed. They keep it while there is a policy of which nobody can read
what classes it covers. A pod that does not fit on the node of a shared claim, or needs another one's company there, waits until another pod has reserved it.
The gates of a group are removed together, once enough of its pods are served.
"""

from collections.abc import Callable, Generator, Iterator

from apportion.api.contract import GATE, MANAGER
from apportion.api.partition import Phase
from apportion.cluster.kinds import POLICIES
from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.demands.groups import group_of, has_all
from apportion.scheduling.demands.onepod import OnePod
from apportion.scheduling.demands.waiting import claims_of, finalizer_of, has_devices
from apportion.scheduling.pace import Changed, Pace
from apportion.scheduling.room.sharing import ShutOut

AT_ONCE = 256
"""Claims of pods that `open` looks at before it yields."""
PartitionPhase = Callable[[Claim], Phase | None]
"""The worst phase of the partitions behind a claim; None when it has none."""


class Gates:
    """Follows the gated pods: those whose claims wait for devices are not looked at again before something about them changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cursor = -1
        """How far the changes of pods were read."""
        self._managed: ManagedClasses | None = None
        self._changed = Changed[str]()
        """Pods, by UID."""
        self._allocated: dict[str, None] = {}
        """Gated pods (UIDs) without a claim of ours that has no allocation, or one that nobody can allocate."""
        self._members: dict[tuple[str, str], dict[str, None]] = {}
        """Those of each group (namespace and name)."""
        self._groups: dict[str, tuple[str, str]] = {}
        """The group of each."""
        self.taken: list[tuple[Pod, Claim, Pod]] = []
        """Pods that waited when `open` was last exhausted, for which claim, and for the end of which pod."""
        self.uncut: dict[str, tuple[Claim, DeviceId]] = {}
        """By UID, claims that kept pods waiting then for a partition that they look at with admin access, and that nobody cuts."""
        self.unprotected: dict[str, Claim] = {}
        """By UID, claims of ours that kept pods waiting then because somebody took our finalizer off: we write it before each allocation."""
        self.awaited: dict[str, Claim] = {}
        """By UID, claims of ours that kept pods waiting then until their partition is cut."""

    def open(
        self,
        *,
        contested: frozenset[str],
        phase: PartitionPhase,
        ungating: Callable[[str], bool] = lambda _: False,
    ) -> Generator[None, None, list[Pod]]:
        """Return pods whose gate can be removed, without those of which `ungating` says that it is being removed; yields after each few claims.

        `contested` are the UIDs of claims whose devices overlap, or are about to be taken back.
        """
        yield from self._follow()
        snapshot = self._snapshot
        uncertain = bool(snapshot.left_out(POLICIES))

        def has(claim: Claim) -> bool:
            if not _is_ours(claim, snapshot):
                return not uncertain and has_devices(claim, snapshot)
            if claim.allocation is None or claim.uid in contested or _is_left(claim, snapshot):
                return False
            if finalizer_of(claim) not in claim.finalizers:
                # Not before the finalizer is there by which controller-manager cleans up.
                self.unprotected[claim.uid] = claim
                return False
            return self._is_cut(claim, phase)

        whole: dict[tuple[str, str], bool] = {}
        shut_out, one_pod = ShutOut(snapshot), OnePod(snapshot, ungating)
        opened, pace = list[Pod](), Pace(AT_ONCE)
        self.taken, self.uncut, self.unprotected, self.awaited = [], {}, {}, {}
        for pod in snapshot.pods_of(self._allocated):
            if pace.rests(len(pod.claims) or 1):
                yield
            if ungating(pod.uid):
                continue
            if pod.group is not None:
                key = pod.namespace, pod.group.name
                if key not in whole:
                    may_be = self._may_be_whole(*key, pod.group.least)
                    whole[key] = may_be and (yield from _whole(pod, snapshot, has, pace))
                if not whole[key]:
                    continue
            claims = claims_of(pod, snapshot)
            if claims is None or not all(has(claim) for claim in claims) or pod in shut_out:
                continue
            found = one_pod.taken(pod)
            if found is not None:
                self.taken.append((pod, *found))
                continue
            one_pod.open(pod)
            opened.append(pod)
        return opened

    def _is_cut(self, claim: Claim, phase: PartitionPhase) -> bool:
        """Say whether a claim of ours waits for no partition, or none that its policy has pods wait for."""
        policy = self._snapshot.managed.policy(claim)
        if not policy.partitions.wait_for_ready or phase(claim) in (None, Phase.READY):
            return True
        if (device := _uncut(claim, self._snapshot)) is not None:
            self.uncut[claim.uid] = claim, device
        else:
            self.awaited[claim.uid] = claim
        return False

    def _follow(self) -> Iterator[None]:
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.pods.since(self._cursor)
        if changed is None or managed is not self._managed:
            self._managed, changed = managed, [*snapshot.pod_index.gated]
            for known in (self._allocated, self._members, self._groups):
                known.clear()
        yield from self._changed.steps(changed, self._look)

    def _look(self, uid: str) -> None:
        pod = self._snapshot.pods.get(uid)
        group = self._groups.pop(uid, None)
        if group is not None:
            del self._members[group][uid]
            if not self._members[group]:
                del self._members[group]
        if pod is None or uid not in self._snapshot.pod_index.gated or not self._is_allocated(pod):
            self._allocated.pop(uid, None)
            return
        self._allocated[uid] = None
        if pod.group is not None:
            self._groups[uid] = group = pod.namespace, pod.group.name
            self._members.setdefault(group, {})[uid] = None

    def _may_be_whole(self, namespace: str, group: str, least: int) -> bool:
        """Say whether enough pods of a group may be served, by counting those whose claims have no devices yet."""
        index, key = self._snapshot.pod_index, (namespace, group)
        waiting = index.gated_members.get(key, set()).difference(self._members.get(key, ()))
        return index.others(namespace, group, waiting) >= least

    def _is_allocated(self, pod: Pod) -> bool:
        snapshot = self._snapshot
        return GATE in pod.gates and all(
            claim is not None and has_devices(claim, snapshot) for claim in snapshot.named_claims(pod)
        )


def shut_by_policies(snapshot: Snapshot) -> Iterator[tuple[Pod, str]]:
    """Yield pods that keep the gate because policies that cannot be read may cover the classes of their claims, with their names."""
    unread = sorted(snapshot.broken[uid].name for uid in snapshot.left_out(POLICIES))
    if unread:
        for pod in snapshot.pods_of(snapshot.pod_index.gated):
            claims = claims_of(pod, snapshot) if GATE in pod.gates else None
            if claims and any(
                not _is_ours(claim, snapshot) and has_devices(claim, snapshot) for claim in claims
            ):
                yield pod, ", ".join(unread)


def _is_ours(claim: Claim, snapshot: Snapshot) -> bool:
    """Say whether we allocate a claim, or have allocated it, whatever its classes are now."""
    has_ours = claim.allocation is not None and claim.allocated_by == MANAGER
    return has_ours or snapshot.managed.owns(claim)


def _whole(
    pod: Pod, snapshot: Snapshot, has: Callable[[Claim], bool], pace: Pace
) -> Generator[None, None, bool]:
    """Say whether enough pods of a pod's group are served; yields by the `pace`: thousands of them may share a claim."""
    group = group_of(pod, snapshot)
    if group is None or group.flaw:
        return group is None
    served = 0
    for each in group.pods:
        if served >= group.least:
            break
        if pace.rests(len(each.claims) or 1):
            yield
        served += has_all(each, snapshot, has)
    return served >= group.least


def _uncut(claim: Claim, snapshot: Snapshot) -> DeviceId | None:
    """Return a partition that a claim looks at with admin access and that is not there. What somebody holds is cut for that one."""
    devices = snapshot.devices
    for result in claim.allocation.results if claim.allocation is not None else ():
        device = result.device
        if (
            result.admin_access
            and device.driver in snapshot.drivers
            and devices.published_partition(device) is not None
            and devices.partition(device) is None
            and not snapshot.state.holders(device)
        ):
            return device
    return None


def _is_left(claim: Claim, snapshot: Snapshot) -> bool:
    """Say whether all that have reserved a claim are pods that are over.

    controller-manager then takes reservations and allocation away in one write. kube-scheduler would bind a pod by the
    former allocation, and reserve the next one for it, wherever that is (dynamicresources, `bindClaim`).
    """
    pods = snapshot.pods
    return bool(claim.reserved_for) and all(
        user.resource == "pods" and (user.uid not in pods or pods[user.uid].finished)
        for user in claim.reserved_for
    )
