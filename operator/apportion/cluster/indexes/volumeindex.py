"""VolumeIndex: on which nodes the volumes of a pod can be used, as kube-scheduler will see it.

In: PersistentVolumeClaims, PersistentVolumes and StorageClasses as they come and go; a pod. Out: why the pod cannot be
scheduled anywhere, or the conditions on its node. Rules: k8s.io/kubernetes pkg/scheduler/framework/plugins/volumebinding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.dra.selection import NodeSelector
from apportion.dra.volume import PersistentVolume, PersistentVolumeClaim, StorageClass


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """What a volume asks of the pod's node."""

    reason: str
    """What rules a node out, for people."""
    holds: Callable[[Node], bool]
    asks: object = None
    """Conditions that ask the same of nodes have equal values here (hashable); None: perhaps like no other."""


class VolumeIndex:
    """Volumes by name."""

    def __init__(self) -> None:
        self.complete = False
        """Whether they are watched; otherwise nothing is known, and nothing is asked of nodes."""
        self.version = 0
        """Rises with every change."""
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._unbound: dict[str, dict[str, PersistentVolume]] = {}
        """Volumes that are for no claim yet, by StorageClass and name."""
        self._kept: dict[tuple[str, str], dict[str, PersistentVolume]] = {}
        """Volumes by the claim (namespace and name) that they are for, and by name: earlier claims may have left some."""
        self._classes: dict[str, StorageClass] = {}

    def know(self, *, complete: bool) -> None:
        """Learn whether all kinds are observed."""
        self.complete = complete
        self.version += 1

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

    def _put_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
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

    def conditions(self, pod: Pod) -> Iterator[NodeCondition | str]:
        """Yield what the pod's volumes ask of its node; a text where no node can take the pod as things are."""
        for name in pod.volumes if self.complete else ():
            claim = self._claims.get((pod.namespace, name))
            if claim is None:
                yield f"PersistentVolumeClaim {name} does not exist"
            elif claim.deleting:
                yield f"PersistentVolumeClaim {name} is being deleted"
            elif claim.volume is not None:
                yield self._bound(claim, claim.volume)
            else:
                yield self._unbound_claim(claim)

    def _bound(self, claim: PersistentVolumeClaim, name: str) -> NodeCondition | str:
        volume = self._volumes.get(name)
        if volume is None:
            return f"PersistentVolume {name} of PersistentVolumeClaim {claim.name} does not exist"
        return _affinity(claim, volume)

    def _unbound_claim(self, claim: PersistentVolumeClaim) -> NodeCondition | str:
        known = self._classes.get(claim.storage_class)
        if known is None or not known.waits:
            return f"PersistentVolumeClaim {claim.name} is not bound yet"
        if claim.selected_node is not None:
            chosen = claim.selected_node
            reason = f"volume {claim.name} is made elsewhere"
            return NodeCondition(reason, lambda node: node.name == chosen, chosen)
        for _, kept in sorted(self._kept.get((claim.namespace, claim.name), {}).items()):
            if kept.is_kept_for(claim):
                return _affinity(claim, kept)
        usable = [
            _condition(each.nodes) for each in self._unbound.get(known.name, {}).values() if each.suits(claim)
        ]
        if known.provisions:
            usable.append(_condition(known.nodes))
        return NodeCondition(
            f"no volume for {claim.name} there (StorageClass {known.name})",
            lambda node: any(holds(node) for holds in usable),
        )


def _affinity(claim: PersistentVolumeClaim, volume: PersistentVolume) -> NodeCondition:
    asks = "anywhere" if volume.nodes is None else volume.nodes
    return NodeCondition(f"node affinity of volume {claim.name}", _condition(volume.nodes), asks)


def _condition(selector: NodeSelector | None) -> Callable[[Node], bool]:
    return lambda node: selector is None or selector.matches(node.name, node.labels)
