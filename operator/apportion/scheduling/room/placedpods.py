"""PlacedPods: the pods on nodes, bound, sent there by an allocation, or placed there by a decision in the making, by what they match.

In: the snapshot with its pods, members of a group that are placed, and not granted yet. Out: the pods of each node that match a selection or take a host port, and
those that shun others. Pods that match a selection are counted once, and then as they change.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.snapshot import Snapshot
from apportion.dra.excess import MOST_POD_TERMS, MOST_SPREADS
from apportion.dra.pod import Pod
from apportion.dra.podrelations import PodSelection
from apportion.dra.selectionindex import Entry, Matched, SelectionIndex, entries_of, matches
from apportion.scheduling.pace import Changed, Pace
from apportion.scheduling.room.antiaffinity import AntiAffinity
from apportion.scheduling.room.countedpods import CountedPods, chooses

MOST_COUNTED = 8192
"""Selections of pods that are counted; the least recently used leaves."""
MOST_MATCHES = 1 << 20
"""Pods that these match together, each of some 50 bytes where ten are on a node, 350 where each has one of its own."""
MOST_OF_ONE = MOST_POD_TERMS + MOST_SPREADS + 3
"""Selections of one pod: its company, host ports and volumes are one each. So many stay that were used last, however much they match."""

Goes: TypeAlias = Callable[[Pod], bool]
"""Says of a pod that it would leave its node for another one that goes there."""
ByNode: TypeAlias = Mapping[str, Collection[str]]
"""Pods (UIDs) by their node."""


def below(pods: Iterable[Pod]) -> Goes:
    """Return the rule by which kube-scheduler preempts others for these pods, all of them: bound ones of lower priority than each of theirs go."""
    least = min([pod.priority for pod in pods], default=None)
    return lambda other: least is not None and other.node is not None and other.priority < least


class PlacedPods:
    """Pods by their node."""

    def __init__(
        self, snapshot: Snapshot, node_of: Callable[[Pod], str | None], doubted: ChangeLog[str]
    ) -> None:
        """`node_of` returns the node to which a pod is bound or sent; `doubted`: pods (UIDs) of which that may have changed though they did not."""
        self._snapshot = snapshot
        self._node_of = node_of
        self._doubted = doubted
        self._cursor = -1, -1
        """How far the changes of pods were read; as long as nobody asks for pods that match they are not."""
        self._changed: Changed[str] = Changed()
        self._there: dict[str, tuple[Pod, str]] = {}
        """Pods on nodes as they are counted, with the node, by UID."""
        self._found: dict[Entry, dict[str, None]] = {}
        """The same pods (UIDs)."""
        self._counted: OrderedDict[Matched, CountedPods] = OrderedDict()
        """The least recently used first."""
        self._index: SelectionIndex[Matched] = SelectionIndex(lambda entry: len(self._found.get(entry, ())))
        """The keys of `_counted`."""
        self._matches = 0
        """How many pods these match together."""
        self._selections = -1
        """How far the new selections of waiting pods were read."""
        self._averse = -1, -1
        """How far the changes of pods were read for anti-affinity."""
        self._changed_averse: Changed[str] = Changed()
        self._anti_affinity = AntiAffinity(snapshot.namespaces)
        """That of pods on nodes."""
        self._placed: dict[str, str] = {}
        """Where pods (UIDs) are counted that nobody has sent to a node yet."""
        self._gone: frozenset[str] = frozenset()
        """Pods (UIDs) that are counted nowhere for the moment."""
        self._recounted = 0
        """How often a pod was placed here, or counted nowhere."""

    def steps(self) -> Iterator[None]:
        """Count the pods that waiting pods ask for, before anybody needs their number at once; yields where others may run."""
        yield from self._follow_averse()
        index, pace = self._snapshot.pod_index, Pace()
        if not index.selections and not self._counted:
            return
        yield from self._follow()
        end, new = index.new_selections.since(self._selections)
        for asked in tuple(index.selections) if new is None else new:
            if pace.rests():
                yield
            if self._matches > MOST_MATCHES // 2:
                break  # what was counted should stay
            if asked not in index.selections:
                continue
            yield from self._snapshot.namespaces.steps((asked,))
            if not self.is_counted(asked):
                yield from self._count(asked, pace)
        self._selections = end

    def ahead(self, pod: Pod, asked: Collection[Matched], pace: Pace) -> Iterator[None]:
        """Find what shuns a pod, and count what matches of what it asks for; yields by the `pace`."""
        yield from self._follow_averse()
        yield from self._anti_affinity.steps(pod, pace)
        if asked:
            yield from self._follow()
        yield from self._snapshot.namespaces.steps(each for each in asked if isinstance(each, PodSelection))
        for each in asked:
            if pace.rests():
                yield
            if self.is_counted(each):
                self._counted.move_to_end(each)
            else:
                yield from self._count(each, pace)

    @property
    def moment(self) -> tuple[int, int, int]:
        """Return what changes whenever a pod comes to a node, leaves one, or changes."""
        return self._snapshot.changes.pods.end, self._doubted.end, self._recounted

    def place(self, pod: Pod, node: str | None) -> None:
        """Count a pod on a node though nobody has sent it there yet; None: no longer."""
        if node is not None:
            self._placed[pod.uid] = node
        else:
            self._placed.pop(pod.uid, None)
        self._recount(pod)

    def place_of(self, pod: Pod) -> str | None:
        """Return the node on which a pod is counted though nobody has sent it there yet."""
        return self._placed.get(pod.uid)

    def is_placed(self, pod: Pod) -> bool:
        """Say whether a pod is counted on a node."""
        return self._where(pod.uid) is not None

    @contextmanager
    def without(self, pods: Collection[Pod]) -> Generator[None]:
        """Count these pods nowhere within a block."""
        self._gone = frozenset(pod.uid for pod in pods)
        try:
            for pod in pods:
                self._recount(pod)
            yield
        finally:
            self._gone = frozenset()
            for pod in pods:
                self._recount(pod)

    def _recount(self, pod: Pod) -> None:
        self._recounted += 1
        if self._cursor != (-1, -1):
            self._look(pod.uid)
        if pod.relations.anti_affinity:
            self._put_averse(pod.uid)

    def going(self, pods: Iterable[str], goes: Goes) -> int:
        """Return how many of these pods (UIDs) go; those that are only placed here stay."""
        known = (self._snapshot.pods.get(uid) for uid in pods if uid not in self._placed)
        return sum(pod is not None and goes(pod) for pod in known)

    def all_go(self, pods: Iterable[str], goes: Goes) -> bool:
        """Say whether all of these pods (UIDs) go."""
        known = self._snapshot.pods
        return all(uid not in self._placed and uid in known and goes(known[uid]) for uid in pods)

    def matching(self, asked: Matched, but: Pod) -> ByNode:
        """Return the pods that match on each node, without one pod."""
        for _ in self._follow():
            pass
        if not self.is_counted(asked):
            for _ in self._count(asked, Pace()):
                pass
        counted = self._counted[asked]
        self._counted.move_to_end(asked)
        _, own = self._there.get(but.uid, (None, ""))
        if but.uid not in counted.nodes.get(own, ()):
            return counted.nodes
        others = {**counted.nodes, own: counted.nodes[own].keys() - {but.uid}}
        return {node: pods for node, pods in others.items() if pods}

    def is_counted(self, asked: Matched) -> bool:
        """Say whether the pods that match are counted."""
        counted = self._counted.get(asked)
        if counted is None or not counted.complete:
            return False
        return not chooses(asked) or counted.means == self._meant(asked)

    def _meant(self, asked: Matched) -> Matched:
        """Return what matches now, where namespaces are chosen by labels."""
        return self._snapshot.namespaces.named(asked) if isinstance(asked, PodSelection) else asked

    def _count(self, asked: Matched, pace: Pace) -> Iterator[None]:
        """Count the pods that match, all of them; yields by the `pace`, and those that change meanwhile are looked at by `_look`."""
        means = self._meant(asked)
        if asked in self._counted and chooses(asked) and self._counted[asked].means != means:
            self._forget(asked)
        if asked not in self._counted:
            self._counted[asked] = CountedPods(means, self._index.put(asked, means))
        counted = self._counted[asked]
        self._counted.move_to_end(asked)
        for uid in dict.fromkeys(uid for entry in counted.entries for uid in self._found.get(entry, ())):
            if pace.rests():
                yield
                if self._counted.get(asked) is not counted:
                    return  # it left meanwhile
            found = self._there.get(uid)
            if found is not None and matches(means, found[0]):
                self._matches += counted.put(uid, found[1])
        counted.complete = True
        while len(self._counted) > MOST_OF_ONE and (
            len(self._counted) > MOST_COUNTED or self._matches > MOST_MATCHES
        ):
            self._forget(next(iter(self._counted)))

    def _forget(self, asked: Matched) -> None:
        """Count no longer what matches."""
        gone = self._counted.pop(asked)
        self._matches -= sum(map(len, gone.nodes.values()))
        self._index.drop(asked)

    def _follow(self) -> Iterator[None]:
        """Look at the pods that changed; yields where others may run."""
        self._cursor, changed = self._since(self._cursor)
        yield from self._changed.steps(
            {*self._snapshot.pods, *self._there} if changed is None else changed, self._look
        )

    def _look(self, uid: str) -> int:
        """Count a pod where it is now; returns with how many selections it was compared."""
        before, pod, node = self._there.get(uid), self._snapshot.pods.get(uid), self._where(uid)
        compared = 0
        if before is not None:
            if before[0] is pod and before[1] == node:
                return 0
            del self._there[uid]
            for asked in (around := self._index.around(before[0])):
                self._matches -= self._counted[asked].drop(uid, before[1])
            compared += len(around)
            for entry in entries_of(before[0]):
                rows = self._found.get(entry, {})
                rows.pop(uid, None)
                if not rows:
                    self._found.pop(entry, None)
        if pod is not None and node is not None:
            self._there[uid] = pod, node
            for asked in (around := self._index.around(pod)):
                if matches(self._counted[asked].means, pod):
                    self._matches += self._counted[asked].put(uid, node)
            compared += len(around)
            for entry in entries_of(pod):
                self._found.setdefault(entry, {})[uid] = None
        return compared

    def shunning(self, pod: Pod) -> Iterator[tuple[str, ByNode]]:
        """Yield the pods that shun a pod, once for each key of a label in whose value they do."""
        for _ in self._follow_averse():
            pass
        for key, uids in self._anti_affinity.shunning(pod).items():
            there: dict[str, set[str]] = {}
            for uid in uids:
                if uid != pod.uid and (node := self._where(uid)) is not None:
                    there.setdefault(node, set()).add(uid)
            yield key, there

    def _since(self, cursor: tuple[int, int]) -> tuple[tuple[int, int], Sequence[str] | None]:
        """Return the cursor after the latest change, and the pods (UIDs) that changed after this one; None: too many."""
        pods, changed = self._snapshot.changes.pods.since(cursor[0])
        nodes, doubted = self._doubted.since(cursor[1])
        return (pods, nodes), None if changed is None or doubted is None else [*changed, *doubted]

    def _follow_averse(self) -> Iterator[None]:
        """Look at the anti-affinity of the pods that changed; yields where others may run."""
        self._averse, changed = self._since(self._averse)
        yield from self._changed_averse.steps(
            {*self._snapshot.pods, *self._anti_affinity.pods} if changed is None else changed,
            self._put_averse,
        )

    def _put_averse(self, uid: str) -> int:
        """Note the terms of a pod where it is on a node; returns how many there are."""
        pod = self._snapshot.pods.get(uid)
        terms = pod.relations.anti_affinity if pod is not None else ()
        self._anti_affinity.put(uid, terms if terms and self._where(uid) is not None else ())
        return len(terms)

    def _where(self, uid: str) -> str | None:
        pod = self._snapshot.pods.get(uid)
        if pod is None or pod.finished or uid in self._gone:
            return None
        return self._node_of(pod) or self._placed.get(uid)
