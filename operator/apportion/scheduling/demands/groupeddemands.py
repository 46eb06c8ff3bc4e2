"""GroupedDemands: the waiting demands of each pod group, followed change by change.

In: the demands that came and went. Out: the queue of a pass, in which all demands of a group stand together. A group that is
skipped, or of which nothing changed, costs nothing, however many pods it has.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeAlias

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.groupmembership import NATIVE
from apportion.dra.pod import Pod
from apportion.scheduling.demands.groups import CrossGroupDemand, Queued, WaitingGroup, group_of, with_demands
from apportion.scheduling.demands.waiting import Row, WaitingDemand, place_of
from apportion.scheduling.pace import AT_ONCE, Pace

_Group: TypeAlias = tuple[str, str]
"""Namespace and name."""


class GroupedDemands:
    """Demands by group, each group's in the order of the queue."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows: dict[_Group, list[Row]] = {}
        self._known: dict[str, tuple[_Group, Row]] = {}
        """By key of the demand."""
        self._made: dict[_Group, tuple[WaitingGroup, object]] = {}
        """Groups as they are, until something of them changes; with the object that says how large one is, where one does."""
        self._groups: dict[str, _Group] = {}
        """Those of the pods in them, by UID."""
        self._managed = snapshot.managed
        self._seen = -1
        """How far the changes of pods were read."""

    def follow(self, gone: Iterable[str], came: Iterable[WaitingDemand]) -> list[WaitingDemand]:
        """Note the demands that went or changed (by key), and those that came or changed; return those that are of no single group."""
        for key in gone:
            self._drop(key)
        others: list[WaitingDemand] = []
        for demand in came:
            if len(demand.members) != 1:
                others.append(demand)
                continue
            [(name, pod)] = demand.members.items()
            group, row = (pod.namespace, name), (place_of(demand, self._snapshot.managed), demand)
            insort(self._rows.setdefault(group, []), row)
            self._known[demand.key] = group, row
            self._made.pop(group, None)
        return others

    def queue(
        self, demands: Sequence[WaitingDemand], skips: Callable[[str], bool] = lambda _: False
    ) -> Generator[None, None, list[Queued]]:
        """Return what is decided at once: these demands, which are of no single group, and groups. Yields where others may run.

        Groups (by their keys) that `skips` names are left out.
        """
        self._forget_changed()
        snapshot, pace = self._snapshot, Pace()
        queue: list[Queued] = []
        crossed: set[_Group] = set()
        for demand in demands:
            if demand.members:
                queue.append(CrossGroupDemand(demand, tuple(sorted(demand.members))))
                crossed |= {(pod.namespace, name) for name, pod in demand.members.items()}
            else:
                queue.append(demand)
        for (namespace, name), rows in self._rows.items():
            if not skips(f"{namespace}/{name}"):
                group, looked_at = yield from self._waiting((namespace, name), rows[0][1].members[name], rows)
                queue.append(group)
                if pace.rests(looked_at):
                    yield
        # Groups without a waiting demand of their own, of which some pods have their devices and wait for the others. Where these share claims
        # with other groups nobody serves them, and only what the group has is looked at.
        for namespace, name in sorted(snapshot.pod_index.gated_members.keys() - self._rows.keys()):
            if skips(f"{namespace}/{name}"):
                continue
            pods = snapshot.pods_of(snapshot.pod_index.gated_members.get((namespace, name), ()))
            gated = next((pod for pod in pods if GATE in pod.gates), None)
            if gated is None:
                continue
            group, looked_at = yield from self._waiting((namespace, name), gated, ())
            if not group.whole and (group.served or (namespace, name) not in crossed):
                queue.append(group)
            if pace.rests(looked_at):
                yield
        return queue

    def _forget_changed(self) -> None:
        """Forget the groups of which a pod or its claims changed."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._seen, changed = snapshot.changes.pods.since(self._seen)
        if changed is None or managed is not self._managed:
            self._managed = managed
            self._made.clear()
            self._groups.clear()
            return
        for uid in changed if self._made or self._groups else ():
            former, pod = self._groups.pop(uid, None), snapshot.pods.get(uid)
            if former is not None:
                self._made.pop(former, None)
            if pod is not None and pod.group is not None:
                self._made.pop((pod.namespace, pod.group.name), None)

    def _waiting(
        self, name: _Group, pod: Pod, rows: Sequence[Row]
    ) -> Generator[None, None, tuple[WaitingGroup, int]]:
        """Return the group of this name, to which a pod belongs, with these demands; and how many of its pods were looked at since others ran."""
        namespace, own = name
        said = self._snapshot.pod_index.groups.get((namespace, own.removeprefix(NATIVE)))
        known = self._made.get(name)
        if known is not None and known[1] is said:
            return known[0], 0
        group = group_of(pod, self._snapshot)
        if group is None:
            raise TypeError(f"pod {pod.key} is of no group")
        if is_large := len(group.pods) > AT_ONCE:
            yield
        made = yield from with_demands(group, [demand for _, demand in rows], self._snapshot)
        self._made[name] = made, said
        self._groups.update(dict.fromkeys((each.uid for each in group.pods), name))
        return made, AT_ONCE if is_large else len(group.pods)

    def _drop(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        group, row = known
        self._made.pop(group, None)
        rows = self._rows[group]
        del rows[bisect_left(rows, row)]
        if not rows:
            del self._rows[group]
