"""Snapshot: the live picture of the cluster, and what is already decided on top of it.

In: raw objects as watches deliver them, in any order, again and again. Out: parsed values in indexes, and the
allocator's state kept in step with them. Objects are known by UID, so that a late DELETED of an old object cannot
erase a new one of the same name. An object that cannot be read is left out and remembered as broken.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import structlog

from apportion.allocator.facts.host import HostResources
from apportion.allocator.state import State
from apportion.api.layout import PartitionLayout
from apportion.api.partition import Partition
from apportion.api.policy import AllocationPolicy
from apportion.cluster import kinds
from apportion.cluster.broken import Broken
from apportion.cluster.claimindex import ClaimIndex
from apportion.cluster.deviceindex import DeviceIndex
from apportion.cluster.kinds import Kind
from apportion.cluster.ledger import Ledger, number
from apportion.cluster.management import Management, management
from apportion.cluster.podindex import PodIndex
from apportion.cluster.preparedindex import PreparedIndex
from apportion.cluster.takenback import TakenBack
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.dra.slice import Slice
from apportion.dra.taintrule import DeviceTaintRule
from apportion.errors import BrokenInput

_log = structlog.get_logger()
_REMEMBERED = 20_000
Raw = Mapping[str, Any]

_READERS: Mapping[Kind, Callable[[Raw], Any]] = {
    kinds.NODES: Node.from_json,
    kinds.PODS: Pod.from_json,
    kinds.CLAIMS: Claim.from_json,
    kinds.SLICES: Slice.from_json,
    kinds.CLASSES: DeviceClass.from_json,
    kinds.TAINT_RULES: DeviceTaintRule.from_json,
    kinds.PARTITIONS: Partition.from_json,
    kinds.LAYOUTS: PartitionLayout.from_json,
    kinds.POLICIES: AllocationPolicy.from_json,
}


class Snapshot:
    """Everything that apportion has seen, by kind and UID."""

    def __init__(self, state: State, ledger: Ledger, *, ring: Callable[[], None]) -> None:
        self.state = state
        self.ledger = ledger
        self.broken: dict[str, Broken] = {}
        """By UID."""
        self.taken_back: deque[TakenBack] = deque(maxlen=10_000)
        """Filled by `observe`, emptied by the cycle."""
        self.room_epoch = 0
        """Grows whenever something happened that may let a refused demand in."""
        self.device_epoch = 0
        """Grows whenever live allocations or devices changed."""
        self.slice_epoch = 0
        """Grows whenever a slice changed."""
        self.partition_epoch = 0
        """Grows whenever something changed that partitions depend on, live allocations and slices aside."""
        self._ring = ring
        self._objects: dict[Kind, dict[str, Any]] = {kind: {} for kind in _READERS}
        self._versions: dict[str, int] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        """UIDs of the objects that went last."""
        self.devices = DeviceIndex()
        self.claim_index = ClaimIndex()
        self.pod_index = PodIndex()
        self.prepared = PreparedIndex()
        self._node_uids: dict[str, str] = {}
        self._clearing: set[str] = set()
        self._charged: dict[str, Allocation] = {}
        """What the state holds for claims."""
        self._management: Management | None = None

    def observe(self, kind: Kind, change: str, raw: Raw) -> None:
        """Take in one watch event: ADDED, MODIFIED or DELETED. Never raises for what the object holds."""
        metadata = raw["metadata"]
        uid, version = metadata["uid"], number(str(metadata.get("resourceVersion") or ""))
        known = self._objects[kind]
        if change == "DELETED":
            old = known.pop(uid, None)
            self._versions.pop(uid, None)
            self.broken.pop(uid, None)
            self._gone[uid] = None
            while len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)
            if old is not None:
                self._changed(kind, uid, old, None)
            return
        # Our own write may be answered after the watch has told the object's end: a UID never comes back.
        if version < self._versions.get(uid, 0) or uid in self._gone:
            return
        self._versions[uid] = version
        old = known.get(uid)
        try:
            new = _READERS[kind](raw)
        except BrokenInput as error:
            self.broken[uid] = Broken(kind, metadata.get("namespace", ""), metadata["name"], uid, error)
            _log.warning("object.broken", kind=kind.name, name=metadata["name"], error=str(error))
            known.pop(uid, None)
            new = None
        else:
            self.broken.pop(uid, None)
            known[uid] = new
        if old is not None or new is not None:
            self._changed(kind, uid, old, new)

    def known(self, kind: Kind) -> frozenset[str]:
        """Return the UIDs that were observed, broken ones included."""
        return frozenset(self._objects[kind]) | {
            uid for uid, broken in self.broken.items() if broken.kind == kind
        }

    def prune(self, kind: Kind, uids: frozenset[str]) -> None:
        """Drop objects of a kind that the server no longer has."""
        for uid in uids:
            self.observe(kind, "DELETED", {"metadata": {"uid": uid}})

    # Reading. ------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Pods by UID."""
        return self._objects[kinds.PODS]

    @property
    def claims(self) -> Mapping[str, Claim]:
        """Claims by UID."""
        return self._objects[kinds.CLAIMS]

    @property
    def slices(self) -> Mapping[str, Slice]:
        """Slices by UID."""
        return self._objects[kinds.SLICES]

    @property
    def partitions(self) -> Mapping[str, Partition]:
        """Partitions by UID."""
        return self._objects[kinds.PARTITIONS]

    @property
    def layouts(self) -> Mapping[str, PartitionLayout]:
        """Layouts by UID."""
        return self._objects[kinds.LAYOUTS]

    @property
    def policies(self) -> Mapping[str, AllocationPolicy]:
        """Policies by UID."""
        return self._objects[kinds.POLICIES]

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """DeviceClasses by UID."""
        return self._objects[kinds.CLASSES]

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes."""
        yield from self._objects[kinds.NODES].values()

    def node(self, name: str) -> Node | None:
        """Return a node by name."""
        uid = self._node_uids.get(name)
        found: Node | None = self._objects[kinds.NODES].get(uid) if uid else None
        return found

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

    def users(self, claim: Claim) -> Iterator[Pod]:
        """Yield the pods that name the claim."""
        return self.pods_of(self.pod_index.users(claim.namespace, claim.name))

    @property
    def management(self) -> Management:
        """Which classes are ours at present."""
        if self._management is None:
            self._management = management(self.classes.values(), self.policies.values())
        return self._management

    # Deciding: what is assumed on top of what was seen. --------------------------------------------------------

    def assume(self, claim: Claim, allocation: Allocation) -> None:
        """Take the devices of a decision, before it is written."""
        self.ledger.assume(claim, allocation)
        self._charge(claim.uid)

    def forget(self, uid: str) -> None:
        """Give up an assumption whose write failed."""
        if self.ledger.forget(uid) is not None:
            self._charge(uid)
            self.room_epoch += 1
            self._ring()

    def clearing(self, uid: str) -> None:
        """Note that we are about to clear the claim's allocation ourselves: that is no take-back."""
        self._clearing.add(uid)

    def kept(self, uid: str) -> None:
        """Note that the allocation was not cleared by us after all."""
        self._clearing.discard(uid)

    def allocation(self, claim: Claim) -> Allocation | None:
        """Return the claim's allocation, assumed ones included."""
        if claim.allocation is not None:
            return claim.allocation
        assumption = self.ledger.get(claim.uid)
        return assumption.allocation if assumption else None

    # Keeping the indexes. -------------------------------------------------------------------------------------

    def _changed(self, kind: Kind, uid: str, old: Any, new: Any) -> None:
        match kind:
            case kinds.CLAIMS:
                self._claim_changed(uid, old, new)
            case kinds.PODS:
                self._pod_changed(uid, old, new)
            case kinds.NODES:
                if old == new:
                    return  # a heartbeat
                self._node_changed(uid, old, new)
                self.partition_epoch += 1
            case kinds.SLICES:
                self.devices.put_slice(uid, old, new)
                self.prepared.put_slice(uid, old, new)
                self.state.put_slice(new) if new is not None else self.state.drop_slice(uid)
                self.device_epoch += 1
                self.slice_epoch += 1
                self.room_epoch += 1
            case kinds.CLASSES:
                self.state.put_class(new) if new is not None else self.state.drop_class(old.name)
                self._management = None
                self.partition_epoch += 1
                self.room_epoch += 1
            case kinds.TAINT_RULES:
                self.state.put_taint_rule(new) if new is not None else self.state.drop_taint_rule(old.name)
                self.room_epoch += 1
            case kinds.PARTITIONS:
                self.devices.put_partition(uid, old, new)
                self.prepared.put_partition(uid, old, new)
                self.partition_epoch += 1
                self.room_epoch += 1
            case kinds.LAYOUTS:
                self.partition_epoch += 1
            case kinds.POLICIES:
                self._management = None
                self.partition_epoch += 1
                self.room_epoch += 1
        self._ring()

    def _claim_changed(self, uid: str, old: Claim | None, new: Claim | None) -> None:
        before = old.allocation if old is not None else None
        after = new.allocation if new is not None else None
        self.claim_index.put(uid, old, new)
        if new is None:
            self.ledger.forget(uid)
        else:
            echo = self.ledger.echoed(new)
            lost = before or (echo.allocation if echo else None)
            if lost is not None and after is None and uid not in self._clearing:
                users = frozenset(user.uid for user in old.reserved_for) if old is not None else frozenset()
                self.taken_back.append(TakenBack(new, lost, users))
        if before != after:
            self.device_epoch += 1
            self.claim_index.move(uid, before, after)
        if after is None:
            self._clearing.discard(uid)
            self.room_epoch += before is not None
        self._charge(uid)

    def _charge(self, uid: str) -> None:
        """Let the state hold what the claim has or is about to get."""
        claim = self.claims.get(uid)
        allocation = self.allocation(claim) if claim is not None else None
        if allocation == self._charged.get(uid):
            return
        if allocation is not None:
            self._charged[uid] = allocation
            self.state.hold(uid, allocation.results)
        else:
            del self._charged[uid]
            self.state.release(uid)

    def _pod_changed(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        self.pod_index.put(uid, old, new)
        for pod in (old, new):
            if pod is not None and pod.node is not None:
                self._host_changed(pod.node)
        if new is None or new.finished:
            self.room_epoch += 1

    def _node_changed(self, uid: str, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._node_uids[new.name] = uid
            self.state.put_node(new.name, new.labels, new.declared_features)
            self._host_changed(new.name)
            self.room_epoch += 1
        elif old is not None and self._node_uids.get(old.name) == uid:
            del self._node_uids[old.name]
            self.state.drop_node(old.name)

    def _host_changed(self, name: str) -> None:
        """Tell the allocator what cpu and memory are left beside the pods that are bound to a node."""
        node = self.node(name)
        if node is not None:
            used = HostResources.of(self.pod_index.load(name))
            self.state.put_host(name, HostResources.of(node.allocatable).less(used))
