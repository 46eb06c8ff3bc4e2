"""Autoscaling: pods that lose their gate without devices, so that cluster autoscalers see them as unschedulable.

In: the demands that wait, their policies, which of them a quota keeps waiting, the clock. Out: pods, with the reason. An autoscaler looks at pods that kube-scheduler has tried in vain, and it does not
try a pod behind a gate. So a pod that only a new node would serve loses its gate; the guard taint still keeps kube-scheduler
off our devices, and when devices for it appear, it gets them as every pod without a gate does. A gate is never added again.
"""

from collections.abc import Callable, Container, Generator, Iterable
from contextlib import AbstractContextManager
from itertools import islice, takewhile

from apportion.api.contract import GATE
from apportion.api.policy import Autoscale
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.emptynodes import EmptyNodes, Shape
from apportion.scheduling.groups import group_of
from apportion.scheduling.waiting import WaitingDemand, ready

PATIENCE = 10.0
"""Seconds for which a demand waits before anybody asks: an agent that starts anew has no slices for a moment."""
_REPEATED = 10.0
"""Seconds after which all is asked anew, if nodes or slices changed."""
_AT_ONCE = 64
"""Demands that are looked at in one pass."""
NOTHING_FITS = (
    "no node of the cluster could serve this pod even if everything were free: the scheduling gate is removed, so that autoscalers see"
    " it as unschedulable; when a node with such devices comes, it gets them"
)
FULL = (
    "the pod has waited for devices: its policy has the scheduling gate removed (spec.queue.autoscale: WhenFull), so that autoscalers see it as"
    " unschedulable; it gets devices when some are free, or a node with such devices comes"
)


class Autoscaling:
    """Follows the demands whose pods have our gate."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Callable[[], float],
        *,
        over: Container[str],
        lifted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`over`: demands (keys) that a quota keeps waiting: no node would help them. `lifted`: as `EmptyNodes` has it."""
        self._snapshot = snapshot
        self._clock = clock
        self._over = over
        self._empty = EmptyNodes(snapshot, lifted)
        self._young: dict[str, tuple[float, WaitingDemand]] = {}
        """Demands by key, with the time since which they wait; the oldest first."""
        self._groups: dict[Shape, dict[str, WaitingDemand]] = {}
        """Those that were looked at, by what decides the answer and by key."""
        self._shapes: dict[str, Shape] = {}
        """By key of a demand."""
        self._unanswered: dict[Shape, None] = {}
        self._asked: tuple[float, tuple[int, int]] = float("-inf"), (-1, -1)
        """When everything was asked last, and in which epoch of nodes and slices."""

    def follow(self, gone: Iterable[str], came: Iterable[WaitingDemand]) -> None:
        """Note the demands that went or changed (by key), and those that came or changed."""
        now, since = self._clock(), dict[str, float]()
        for key in gone:
            young = self._young.pop(key, None)
            if young is not None:
                since[key] = young[0]
            self._drop(key)
        for demand in came:
            if any(GATE in pod.gates for pod in demand.pods) and demand.key not in self._young:
                self._young[demand.key] = since.get(demand.key, now), demand

    def look(self) -> Generator[None, None, dict[str, tuple[Pod, str]]]:
        """Return the pods that lose their gate now, by UID, with the reason; yields between nodes that are asked about."""
        now, found = self._clock(), dict[str, tuple[Pod, str]]()
        old = takewhile(lambda row: now - row[1][0] >= PATIENCE, self._young.items())
        for key, (_, demand) in tuple(islice(old, _AT_ONCE)):
            del self._young[key]
            if key in self._over:
                self._young[key] = now, demand
                continue
            shape = self._empty.shape(demand)
            if self._mode(demand) is Autoscale.WHEN_FULL:
                found |= {pod.uid: (pod, FULL) for pod in self._pods(demand)}
            elif shape is not None:
                self._shapes[key] = shape
                if shape not in self._groups:
                    self._unanswered[shape] = None
                self._groups.setdefault(shape, {})[key] = demand
        at, epoch = self._asked
        if now - at >= _REPEATED and epoch != self._empty.epoch:
            self._asked = now, self._empty.epoch
            self._unanswered.update(dict.fromkeys(self._groups))
        for shape in tuple(self._unanswered):
            group = self._groups.get(shape, {})
            asked = [each for each in group.values() if self._mode(each) is Autoscale.WHEN_NOTHING_FITS]
            if asked and not (yield from self._empty.could_serve(asked[0], shape[0])):
                for each in asked:
                    if each.key in self._over:
                        self._drop(each.key)
                        self._young[each.key] = now, each
                    else:
                        found |= {pod.uid: (pod, NOTHING_FITS) for pod in self._pods(each)}
            self._unanswered.pop(shape, None)
        return {uid: row for uid, row in found.items() if self._snapshot.pods.get(uid) is row[0]}

    def _drop(self, key: str) -> None:
        """Forget what decides about a demand."""
        shape = self._shapes.pop(key, None)
        if shape is not None:
            del self._groups[shape][key]
            if not self._groups[shape]:
                del self._groups[shape]
                self._unanswered.pop(shape, None)

    def _mode(self, demand: WaitingDemand) -> Autoscale:
        return self._snapshot.managed.policy(demand.claims[0]).queue.autoscale

    def _pods(self, demand: WaitingDemand) -> list[Pod]:
        """Return the pods of a demand that wait behind our gate alone, with those of their groups: none of these starts without the others."""
        if any(self._snapshot.allocation(claim) is not None for claim in demand.claims):
            return []
        groups = [group_of(pod, self._snapshot) for pod in demand.pods]
        members = [pod for group in groups if group is not None for pod in group.pods]
        return [pod for pod in (*demand.pods, *members) if GATE in pod.gates and ready(pod)]
