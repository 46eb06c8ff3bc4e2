"""VolumeIndex: on which nodes the volumes of a pod can be used, as kube-scheduler will see it.

In: PersistentVolumeClaims, PersistentVolumes and StorageClasses as they come and go; a pod. Out: why the pod cannot be
scheduled anywhere, or the conditions on its node. Rules: k8s.io/kubernetes pkg/scheduler/framework/plugins/volumebinding.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apportion.allocator.changelog import ChangeLog
from apportion.cluster import kinds
from apportion.cluster.changes import most_changes
from apportion.cluster.indexes.freevolumes import FreeVolumes
from apportion.cluster.kinds import ResourceKind
from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.dra.podrelations import VolumeUse
from apportion.dra.selection import NodeSelector
from apportion.dra.volume import PersistentVolume, PersistentVolumeClaim, StorageClass

_ONE_POD = "ReadWriteOncePod"
"""The access mode (core/v1) of a volume that one pod of the whole cluster uses at a time; a claim with it has no other."""
MOST_FREE = 64
"""Kinds of claims of which is kept which volumes they may be bound to."""


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """What a volume asks of the pod's node; those are equal that ask the same."""

    reason: str = field(compare=False)
    """What rules a node out, for people."""
    holds: Callable[[Node], bool] = field(compare=False)
    asks: object
    """Equal where the same is asked of nodes (hashable)."""


class _Waiting(NamedTuple):
    """A claim that waits for its pod's node."""

    claim: PersistentVolumeClaim
    known: StorageClass
    volumes: FreeVolumes
    """Those that it may be bound to, in the order in which they are tried: one that is kept for it, else the smallest first."""
    kept: str | None
    """The one that is kept for it."""


class VolumeIndex:
    """Volumes by name."""

    def __init__(self) -> None:
        self.complete = False
        """Whether they are watched; otherwise nothing is known, and nothing is asked of nodes."""
        self.version = 0
        """Rises with every change."""
        self.changes: ChangeLog[tuple[str, str]] = ChangeLog()
        """PersistentVolumeClaims (namespace and name) that changed, or a volume that is for them."""
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._unbound: dict[str, dict[str, PersistentVolume]] = {}
        """Volumes that are for no claim yet, by StorageClass and name."""
        self._kept: dict[tuple[str, str], dict[str, PersistentVolume]] = {}
        """Volumes by the claim (namespace and name) that they are for, and by name: earlier claims may have left some."""
        self._classes: dict[str, StorageClass] = {}
        self._free: dict[object, FreeVolumes] = {}
        """Of those that are for no claim yet, which may be bound to a claim, by what that asks of a volume; as long as none comes or goes."""

    def know(self, *, complete: bool) -> None:
        """Learn whether all kinds are observed."""
        self.complete = complete
        self.version += 1
        self.changes.void()

    def put(self, kind: ResourceKind, old: Any, new: Any) -> None:
        """Replace an object of one of the three kinds. `old` None: it is new; `new` None: it is deleted."""
        self.version += 1
        match kind:
            case kinds.VOLUME_CLAIMS:
                self._put_claim(old, new)
            case kinds.VOLUMES:
                self._put_volume(old, new)
            case kinds.STORAGE_CLASSES:
                self._put_class(old, new)

    def _put_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None:
            self._claims[new.namespace, new.name] = new
        elif old is not None and self._claims.get((old.namespace, old.name)) is old:
            del self._claims[old.namespace, old.name]
        for each in (old, new):
            if each is not None:
                self._note((each.namespace, each.name))

    def _note(self, claim: tuple[str, str]) -> None:
        """Note that something about a claim (namespace and name) changed."""
        self.changes.add(claim, most=most_changes(len(self._claims)))

    def _put_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        for each in (old, new):
            if each is not None and each.claim is not None:
                self._note(each.claim)
            elif each is not None:
                self.changes.void()
                self._free.clear()
        if old is not None:
            self._volumes.pop(old.name, None)
            self._unbound.get(old.storage_class, {}).pop(old.name, None)
            if old.claim is not None:
                kept = self._kept.get(old.claim, {})
                kept.pop(old.name, None)
                if not kept:
                    self._kept.pop(old.claim, None)
        if new is not None:
            self._volumes[new.name] = new
            if new.claim is not None:
                self._kept.setdefault(new.claim, {})[new.name] = new
            else:
                self._unbound.setdefault(new.storage_class, {})[new.name] = new

    def _put_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if old is not None:
            self._classes.pop(old.name, None)
        if new is not None:
            self._classes[new.name] = new
        self.changes.void()

    def conditions(self, pod: Pod) -> Iterator[NodeCondition | str]:
        """Yield what the pod's volumes ask of its node; a text where no node can take the pod as things are."""
        waiting: list[_Waiting] = []
        for name, count in Counter(pod.volumes).items() if self.complete else ():
            claim = self._claims.get((pod.namespace, name))
            known = self._classes.get(claim.storage_class) if claim is not None else None
            if claim is None:
                yield f"PersistentVolumeClaim {name} does not exist"
            elif name in pod.ephemeral and claim.owner != pod.uid:
                yield f"PersistentVolumeClaim {name} was not made for this pod"
            elif claim.lost:
                yield f"PersistentVolumeClaim {name} has lost its volume"
            elif claim.deleting:
                yield f"PersistentVolumeClaim {name} is being deleted"
            elif claim.volume is not None:
                yield from self._bound(claim, claim.volume)
            elif known is None or not known.waits or claim.prebound:
                yield f"PersistentVolumeClaim {claim.name} is not bound yet"
            elif claim.selected_node is not None:
                yield _selected(claim, claim.selected_node)
            else:
                # kube-scheduler looks for a volume as often as the pod names the claim.
                waiting += [self._waiting(claim, known)] * count
        if waiting:
            yield _together(waiting)

    def exclusive(self, pod: Pod) -> VolumeUse | None:
        """Return which of the pod's volumes no other pod may use beside it, on any node (ReadWriteOncePod; k8s.io/kubernetes, plugin volumerestrictions)."""
        names = tuple(
            dict.fromkeys(
                name
                for name in pod.volumes
                if (claim := self._claims.get((pod.namespace, name))) is not None and _ONE_POD in claim.modes
            )
        )
        return VolumeUse(pod.namespace, names) if names else None

    def _bound(self, claim: PersistentVolumeClaim, name: str) -> Iterator[NodeCondition | str]:
        volume = self._volumes.get(name)
        if volume is None:
            yield f"PersistentVolume {name} of PersistentVolumeClaim {claim.name} does not exist"
            return
        asks = "anywhere" if volume.nodes is None else volume.nodes
        yield NodeCondition(f"node affinity of volume {claim.name}", _condition(volume.nodes), asks)
        if (zones := volume.zones).allowed:
            yield NodeCondition(f"zone of volume {claim.name}", lambda node: zones.allow(node.labels), zones)

    def _waiting(self, claim: PersistentVolumeClaim, known: StorageClass) -> _Waiting:
        kept = sorted(self._kept.get((claim.namespace, claim.name), {}).items())
        own = [volume for _, volume in kept if volume.suits(claim)][:1]
        if own:
            return _Waiting(claim, known, FreeVolumes(own), own[0].name)
        if claim.asks not in self._free:
            if len(self._free) >= MOST_FREE:
                del self._free[next(iter(self._free))]
            free = [volume for volume in self._unbound.get(known.name, {}).values() if volume.suits(claim)]
            smallest = sorted(free, key=lambda volume: (volume.size, volume.name))
            self._free[claim.asks] = FreeVolumes(smallest)
        return _Waiting(claim, known, self._free[claim.asks], None)


def _selected(claim: PersistentVolumeClaim, chosen: str) -> NodeCondition:
    return NodeCondition(
        f"volume {claim.name} is made elsewhere", lambda node: node.name == chosen, (chosen,)
    )


def _together(waiting: list[_Waiting]) -> NodeCondition:
    """Return what claims of one pod ask that wait for its node: each a volume of its own there, the smallest that fits, or one that is made.

    In the order of their sizes, as `findMatchingVolumes` of volumebinding chooses.
    """
    waiting = sorted(waiting, key=lambda each: each.claim.size)
    # A pod may have a hundred, and what a class allows is so for all of them.
    made = frozenset(each.known.nodes for each in waiting if not each.volumes and each.known.provisions)
    others = [each for each in waiting if each.volumes or not each.known.provisions]

    def holds(node: Node) -> bool:
        taken: set[str] = set()
        for each in others:
            found = next((volume for volume in each.volumes.on(node) if volume.name not in taken), None)
            if found is not None:
                taken.add(found.name)
            elif not (each.known.provisions and _condition(each.known.nodes)(node)):
                return False
        return all(_condition(nodes)(node) for nodes in made)

    names = " and ".join(f"{each.claim.name} there (StorageClass {each.known.name})" for each in waiting)
    asks = made, tuple((each.claim.asks, each.kept) for each in others)
    return NodeCondition(f"no volume for {names}", holds, asks)


def _condition(selector: NodeSelector | None) -> Callable[[Node], bool]:
    return lambda node: selector is None or selector.matches(node.name, node.labels)
