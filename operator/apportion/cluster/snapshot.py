"""Snapshot: the live state of the cluster as watches show it, and what is already decided on top of it.

In: raw objects as watches deliver them, in any order, again and again; decisions. Out: parsed values in indexes, and the
allocator's state kept in step with them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from apportion.allocator.facts.host import HostResources
from apportion.allocator.state import State
from apportion.api.defrag import DefragPolicy
from apportion.api.layout import PartitionLayout
from apportion.api.partition import Partition
from apportion.api.policy import AllocationPolicy
from apportion.cluster import kinds
from apportion.cluster.assumedallocations import AssumedAllocations, Assumption, Deallocation
from apportion.cluster.changes import Changes
from apportion.cluster.charges import Charges
from apportion.cluster.cutoffclaims import CutOffClaims
from apportion.cluster.endedallocations import EndedAllocations
from apportion.cluster.indexes.claimindex import ClaimIndex
from apportion.cluster.indexes.deviceindex import DeviceIndex
from apportion.cluster.indexes.namespaceindex import NamespaceIndex
from apportion.cluster.indexes.podindex import PodIndex, load_of
from apportion.cluster.indexes.preparedindex import PreparedIndex
from apportion.cluster.indexes.quotaindex import QuotaIndex
from apportion.cluster.indexes.volumeindex import VolumeIndex
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.managedclasses import ManagedClasses, managed_classes
from apportion.cluster.objectstore import ObjectStore, Raw
from apportion.cluster.pressing import presses
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.node import Node
from apportion.dra.pod import DEFAULT_SCHEDULER, Pod
from apportion.dra.slice import Slice
from apportion.dra.taintrule import DeviceTaintRule
from apportion.settings import DRIVERS


class Snapshot:
    """Everything that apportion has seen, by kind and UID."""

    def __init__(
        self,
        state: State,
        *,
        wake: Callable[[], None],
        wake_later: Callable[[], None] | None = None,
        schedulers: frozenset[str] = frozenset({DEFAULT_SCHEDULER}),
        drivers: frozenset[str] = DRIVERS,
    ) -> None:
        """`wake` is called after a change, `wake_later` after one that does not press; `schedulers` bind our pods, `drivers` are our agents'."""
        self.state, self.drivers, self.schedulers = state, drivers, schedulers
        self.assumed, self.deallocations = AssumedAllocations(), deque[Deallocation](maxlen=10_000)
        """The latter are filled by `observe`, emptied by the cycle."""
        self.retry_epoch = 0
        """Grows whenever something happened that may let a refused demand in."""
        self.device_epoch = 0
        """Grows whenever live allocations or devices changed."""
        self.slice_epoch = self.node_epoch = 0
        """Grow whenever a slice, a DeviceTaintRule or a DeviceClass changed, and whenever a node changed, heartbeats aside."""
        self.partition_epoch = 0
        """Grows whenever something changed that partitions depend on, live allocations and slices aside."""
        self._store = store = ObjectStore()
        self.broken, self.answered = store.broken, store.answered
        """Objects that cannot be read, by UID."""
        self.nodes: Mapping[str, Node] = store.of(kinds.NODES)
        self.pods: Mapping[str, Pod] = store.of(kinds.PODS)
        self.claims: Mapping[str, Claim] = store.of(kinds.CLAIMS)
        self.slices: Mapping[str, Slice] = store.of(kinds.SLICES)
        self.classes: Mapping[str, DeviceClass] = store.of(kinds.CLASSES)
        self.partitions: Mapping[str, Partition] = store.of(kinds.PARTITIONS)
        self.layouts: Mapping[str, PartitionLayout] = store.of(kinds.LAYOUTS)
        self.policies: Mapping[str, AllocationPolicy] = store.of(kinds.POLICIES)
        self.taint_rules: Mapping[str, DeviceTaintRule] = store.of(kinds.TAINT_RULES)
        self.defrags: Mapping[str, DefragPolicy] = store.of(kinds.DEFRAGS)
        self.changes = Changes(self.nodes, self.pods, self.claims)
        self.devices, self.claim_index, self.pod_index = DeviceIndex(), ClaimIndex(), PodIndex()
        self.ended, self.prepared = EndedAllocations(self.pods), PreparedIndex()
        self.cut_off = CutOffClaims(self.pods, self.pod_index, self.prepared, self.changes)
        self.volumes, self.namespaces = VolumeIndex(), NamespaceIndex()
        self.quota_index = QuotaIndex(store.of(kinds.QUOTAS))
        self._wake, self._wake_later = wake, wake_later or wake
        self._clearing: set[str] = set()
        """Claims (UIDs) whose allocation we are clearing ourselves."""
        self._charges = Charges(state, self.devices)
        self._managed: ManagedClasses | None = None

    def observe(self, kind: ResourceKind, change: str, raw: Raw) -> None:
        """Take in one watch event: ADDED, MODIFIED, DELETED or RESTORED. Never raises for what the object holds."""
        if (namesake := self._store.replaced(kind, change, raw)) is not None:
            self.observe(kind, "DELETED", namesake)
        old, new = self._store.observe(kind, change, raw)
        if old is not None or new is not None:
            self._changed(kind, raw["metadata"]["uid"], old, new)
        if change == "RESTORED" and (lost := self.assumed.lost(self.claims.get(raw["metadata"]["uid"]))):
            self.forget(lost)

    # Reading. ------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node | None:
        """Return a node by name."""
        return self.nodes.get(self._store.named(kinds.NODES, name) or "")

    def claim(self, namespace: str, name: str) -> Claim | None:
        """Return a claim by name."""
        uid = self.claim_index.named(namespace, name)
        return self.claims.get(uid) if uid else None

    def claims_of(self, uids: Iterable[str]) -> Iterator[Claim]:
        """Yield the claims of these UIDs."""
        claims = self.claims
        return (claims[uid] for uid in tuple(uids) if uid in claims)

    def pods_of(self, uids: Iterable[str]) -> Iterator[Pod]:
        """Yield the pods of these UIDs."""
        pods = self.pods
        return (pods[uid] for uid in tuple(uids) if uid in pods)

    def left_out(self, kind: ResourceKind) -> frozenset[str]:
        """Return the UIDs of the objects of a kind that exist, and of which nothing can be read that counts."""
        return frozenset(found.uid for found in self.broken.values() if found.kind == kind and found.left_out)

    def named_claims(self, pod: Pod) -> Iterator[Claim | None]:
        """Yield the claims that a pod names; None for one that does not exist yet, or cannot be read."""
        for entry in pod.claims:
            if not entry.needless:
                claim = self.claim(pod.namespace, entry.claim) if entry.claim else None
                yield claim if claim is None or claim.uid not in self.broken else None

    def users(self, claim: Claim) -> Iterator[Pod]:
        """Yield the pods that name the claim."""
        return self.pods_of(self.pod_index.users(claim.namespace, claim.name))

    @property
    def managed(self) -> ManagedClasses:
        """The DeviceClasses that we serve now, with their policies."""
        if self._managed is None:
            self._managed = managed_classes(self.classes.values(), self.policies.values())
        return self._managed

    # Deciding: what is assumed on top of what was seen. --------------------------------------------------------

    def assume(self, claim: Claim, allocation: Allocation) -> Assumption:
        """Take the devices of a decision, before it is written."""
        made = self.assumed.assume(claim.uid, allocation, self.users(claim))
        self._charge(claim.uid)
        return made

    def sent(self, assumption: Assumption, version: str) -> bool:
        """Note that the allocation is written now, depending on this resourceVersion of the claim.

        False: the watch has shown a later version already, so that the write would be refused; the devices are free again.
        """
        assumption.send(version)
        if assumption.is_overtaken_by(self.claims.get(assumption.uid)):
            self.forget(assumption)
        return self.assumed.holds(assumption)

    def forget(self, assumption: Assumption) -> None:
        """Give up an assumption whose write has certainly failed; one that is settled changes nothing."""
        if self.assumed.holds(assumption):
            self.assumed.forget(assumption.uid)
            self._charge(assumption.uid)
            self._wake()

    def clearing(self, uid: str) -> None:
        """Note that we are about to clear the claim's allocation ourselves."""
        self._clearing.add(uid)

    def kept(self, uid: str) -> None:
        """Note that the allocation was not cleared by us after all."""
        self._clearing.discard(uid)

    def allocation(self, claim: Claim) -> Allocation | None:
        """Return the claim's allocation, assumed ones included."""
        if claim.allocation is not None:
            return claim.allocation
        assumption = self.assumed.get(claim.uid)
        return assumption.allocation if assumption else None

    # Keeping the indexes. -------------------------------------------------------------------------------------

    def _changed(self, kind: ResourceKind, uid: str, old: Any, new: Any) -> None:
        match kind:
            case kinds.CLAIMS:
                self._claim_changed(uid, old, new)
            case kinds.PODS:
                self._pod_changed(uid, old, new)
            case kinds.NODES:
                self._node_changed(old, new)
                self.node_epoch += 1
                self.partition_epoch += 1
                self.retry_epoch += 1
            case kinds.SLICES:
                self.devices.put_slice(uid, old, new)
                self.cut_off.reported(self.prepared.put_slice(uid, old, new))
                self.state.put_slice(new) if new is not None else self.state.drop_slice(uid)
                self.device_epoch += 1
                self.slice_epoch += 1
                self.retry_epoch += 1
            case kinds.POLICIES if old is not None and new is not None and old.spec == new.spec:
                pass  # its status was written
            case kinds.CLASSES | kinds.POLICIES:
                if kind == kinds.CLASSES:
                    self.state.put_class(new) if new is not None else self.state.drop_class(old.name)
                    self.slice_epoch += 1
                self._managed = None
                self.partition_epoch += 1
                self.retry_epoch += 1
            case kinds.TAINT_RULES:
                self.state.put_taint_rule(new) if new is not None else self.state.drop_taint_rule(old.name)
                self.slice_epoch += 1
                self.retry_epoch += 1
            case kinds.PARTITIONS:
                self.devices.put_partition(uid, old, new)
                self.cut_off.reported(self.prepared.put_partition(uid, old, new))
                self.partition_epoch += 1
                self.retry_epoch += 1
            case kinds.VOLUME_CLAIMS | kinds.VOLUMES | kinds.STORAGE_CLASSES:
                self.volumes.put(kind, old, new)
                self.retry_epoch += old != new
            case kinds.POD_GROUPS:
                self.retry_epoch += self.pod_index.put_group(old, new)
            case kinds.LAYOUTS:
                self.partition_epoch += 1
            case kinds.NAMESPACES | kinds.QUOTAS:
                self.retry_epoch += self.quota_index.put(old, new)
                self.retry_epoch += kind == kinds.NAMESPACES and self.namespaces.put(old, new)
        (self._wake if presses(kind, old, new, self) else self._wake_later)()

    def _claim_changed(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        before = old.allocation if old is not None else None
        after = new.allocation if new is not None else None
        self.claim_index.put(uid, old, new)
        settled = self.assumed.settle(new) if new is not None else self.assumed.forget(uid)
        # Confirmed, and gone in the first version that the watch shows: the watch has merged two changes.
        lost = before or (settled.allocation if settled and settled.confirmed else None)
        if lost is not None and after is None and (claim := new or old) is not None:
            former, ours = self.cut_off.former(uid), new is None or uid in self._clearing
            self.deallocations.append(Deallocation.of(claim, lost, old, former, ours=ours))
        if old is not None and before is not None and (after is None or not after.keeps(before)):
            self.ended.note(old)
            self._charges.put_ended(uid, self.ended.get(uid))
            self.cut_off.note(old)
        elif old is not None and new is not None:
            self.cut_off.kept(old, new)
        if before != after:
            self.device_epoch += 1
            self.claim_index.move(uid, before, after)
            self._charges.touch(before, after)
        if after is None:
            self._clearing.discard(uid)
        self._charge(uid, old)

    def _charge(self, uid: str, gone: Claim | None = None) -> None:
        """Let the allocator's state hold what the claim has or is about to get; `gone`: the claim, if it was deleted."""
        claim = self.claims.get(uid)
        allocation = self.allocation(claim) if claim is not None else None
        if (changed := claim or gone) is not None:
            self.changes.claim(changed, self.users(changed))
        if allocation is not None and claim is not None:
            for former in self.ended.replace(claim, allocation):
                self._charges.put_ended(former, None)
        self.retry_epoch += self._charges.put(uid, allocation)

    def _pod_changed(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        self.pod_index.put(uid, old, new)
        self.changes.pod(uid, old, new)
        for claim in self.ended.of_pod(uid):
            self.cut_off.note(claim)
            self._charges.put_ended(claim.uid, self.ended.get(claim.uid))
            self.changes.claim(claim, ())  # the pod may name another one by now
        if load_of(old) != load_of(new):
            for pod in (old, new):
                if pod is not None and pod.node is not None:
                    self._host_changed(pod.node)
        self.retry_epoch += self.pod_index.lets_in(old, new)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self.devices.put_node(new.name, exists=True)
            self.state.put_node(new.name, new.labels, new.declared_features)
            self._host_changed(new.name)
        elif old is not None:
            self.devices.put_node(old.name, exists=False)
            self.state.drop_node(old.name)
            self.changes.host(old.name)

    def _host_changed(self, name: str) -> None:
        """Tell the allocator what cpu and memory are left beside the pods that are bound to a node."""
        self.changes.host(name)
        if (node := self.node(name)) is not None:
            used = HostResources.of(self.pod_index.load(name))
            self.state.put_host(name, HostResources.of(node.allocatable).less(used))
