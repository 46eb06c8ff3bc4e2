"""PodIndex: pods by the claims that they name, by state, and what bound pods take of their nodes.

In: pods as they come and go. Out: the few that a pass has to look at, and the load of every node.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.changes import most_changes
from apportion.dra.excess import excess_of
from apportion.dra.pod import NO_RELATIONS, Pod
from apportion.dra.podgroup import PodGroup
from apportion.dra.podrelations import PodSelection
from apportion.dra.selectionindex import SelectionIndex

_REMEMBERED = 10_000
_MOST_COMPARED = 4096
"""Selections with which a pod is compared at each of its changes: a tenant may let thousands of pods wait with 64 terms each, all of which may mean any pod."""


class PodIndex:
    """UIDs of pods by state, claim and group; load by node."""

    def __init__(self) -> None:
        self.gated: set[str] = set()
        """With any scheduling gate, neither finished nor being deleted."""
        self.unbound: set[str] = set()
        """With claims, without a node, and not finished."""
        self.nominated: set[str] = set()
        """For which kube-scheduler keeps room of a node, perhaps."""
        self.gated_members: dict[tuple[str, str], set[str]] = {}
        """Gated pods of each group (namespace and name) that has any."""
        self.groups: dict[tuple[str, str], PodGroup] = {}
        """PodGroup objects, by namespace and name."""
        self._users: dict[tuple[str, str], set[str]] = {}
        self._ordered: dict[tuple[str, str], list[str]] = {}
        """The users of claims that several pods name, in order, as long as they are the same."""
        self._members: dict[tuple[str, str], set[str]] = {}
        self._load: dict[str, dict[str, int]] = {}
        self._load_by_priority: dict[str, dict[int, dict[str, int]]] = {}
        self.selections: Counter[PodSelection] = Counter()
        """Which pods those of `unbound` ask to be beside, or away from, without those that ask for too much to be served."""
        self.new_selections: ChangeLog[PodSelection] = ChangeLog()
        """Those for which nobody asked before."""
        self._by_entry: SelectionIndex[PodSelection] = SelectionIndex()
        self._priorities: Counter[int] = Counter()
        """How many bound pods have each priority."""
        self._cut_off: OrderedDict[str, None] = OrderedDict()
        """UIDs of bound pods that were deleted before they had ended; the newest 10,000."""

    def put(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        """Replace a pod. `old` None: it is new; `new` None: it is deleted."""
        before = {(old.namespace, c.claim) for c in old.claims if c.claim} if old else set()
        after = {(new.namespace, c.claim) for c in new.claims if c.claim} if new else set()
        _move(self._users, uid, before, after)
        for name in before ^ after:
            self._ordered.pop(name, None)
        _move(self._members, uid, _group(old), _group(new))
        _move(
            self.gated_members,
            uid,
            _group(old) if _gated(old) else set(),
            _group(new) if _gated(new) else set(),
        )
        live = new is not None and not new.finished
        if uid in self.unbound and old is not None and old.relations is not NO_RELATIONS:
            self._ask(old, -1)
        for uids, belongs in (
            (self.gated, _gated(new)),
            (self.unbound, new is not None and live and new.node is None and new.claims),
            (self.nominated, new is not None and live and new.nominated),
        ):
            uids.add(uid) if belongs else uids.discard(uid)
        if uid in self.unbound and new is not None and new.relations is not NO_RELATIONS:
            self._ask(new, 1)
        if _node_load(old) != _node_load(new):
            self._add(old, -1)
            self._add(new, 1)
        if new is None and _node_load(old) is not None:
            self._cut_off[uid] = None
            while len(self._cut_off) > _REMEMBERED:
                self._cut_off.popitem(last=False)

    def lets_in(self, old: Pod | None, new: Pod | None) -> bool:
        """Say whether a change of a pod may let another one in: it is over, takes less of its node, or others ask to be beside it, or away from it, or so many ask for anybody that it is not looked who.

        After `put`. `old` None: it is new; `new` None: it is deleted.
        """
        if new is None or new.finished:
            return True
        if old is not None and old.nominated not in {None, new.nominated, new.node}:
            return True
        if new.node is None and (old is None or old.node is None):
            # It may count on the node to which an allocation sends it.
            return old is not None and old.labels != new.labels and self._is_related(old, new)
        if old is not None and old.node is not None:
            same = old.node == new.node and old.deleting == new.deleting
            if same and old.labels == new.labels and old.requests == new.requests:
                return False
            if any(new.requests.get(resource, 0) < amount for resource, amount in old.requests.items()):
                return True
        if self._by_entry.count_around(old, new) > _MOST_COMPARED:
            return True
        around = self._by_entry.around(old, new)
        return any(_is_selected(old, each) != _is_selected(new, each) for each in around)

    def _is_related(self, *versions: Pod) -> bool:
        """Say whether somebody asks to be beside one version of a pod, or away from it, and not another, or nobody knows."""
        if self._by_entry.count_around(*versions) > _MOST_COMPARED:
            return True
        around = self._by_entry.around(*versions)
        found = ({each.matches(pod.namespace, pod.labels) for pod in versions} for each in around)
        return any(len(matches) > 1 for matches in found)

    def put_group(self, old: PodGroup | None, new: PodGroup | None) -> bool:
        """Replace a PodGroup object; says whether it changed. `old` None: it is new; `new` None: it is deleted."""
        if new is not None:
            self.groups[new.namespace, new.name] = new
        elif (
            old is not None and (found := self.groups.get((old.namespace, old.name))) and found.uid == old.uid
        ):
            del self.groups[old.namespace, old.name]
        return old != new

    def users(self, namespace: str, name: str) -> list[str]:
        """Return the pods that name a claim, in a stable order."""
        found = self._users.get((namespace, name), ())
        if len(found) < 2:
            return [*found]
        if (namespace, name) not in self._ordered:
            self._ordered[namespace, name] = sorted(found)
        return self._ordered[namespace, name]

    def has_users(self, namespace: str, name: str) -> bool:
        """Say whether a pod names a claim."""
        return bool(self._users.get((namespace, name)))

    def members(self, namespace: str, group: str) -> list[str]:
        """Return the pods of a group, in a stable order."""
        return sorted(self._members.get((namespace, group), ()))

    def others(self, namespace: str, group: str, pods: Iterable[str]) -> int:
        """Return how many pods of a group there are beside these."""
        return len(self._members.get((namespace, group), set()).difference(pods))

    def cut_off(self, uid: str) -> bool:
        """Say whether a deleted pod was bound and had not ended: its containers may still run.

        kubelet sets a final phase before the pod object goes (KEP-3329); only a pod deleted by force goes without one.
        """
        return uid in self._cut_off

    def load(self, node: str) -> Mapping[str, int]:
        """Return what pods that are bound to the node request of it, `pods` included."""
        return self._load.get(node, {})

    def has_lower(self, priority: int) -> bool:
        """Say whether a pod of lower priority is bound to any node."""
        return any(each < priority for each in self._priorities)

    def removable(self, node: str, priority: int) -> Mapping[str, int]:
        """Return what pods of lower priority that are bound to the node request of it, `pods` included."""
        found: Counter[str] = Counter()
        for level, load in self._load_by_priority.get(node, {}).items():
            if level < priority:
                found.update(load)
        return found

    def _ask(self, pod: Pod, sign: int) -> None:
        if excess_of(pod) is not None:
            return
        for selection in pod.relations.selections:
            if selection not in self.selections:
                self._by_entry.put(selection, selection)
                self.new_selections.add(selection, most=most_changes(len(self.selections)))
            self.selections[selection] += sign
            if not self.selections[selection]:
                del self.selections[selection]
                self._by_entry.drop(selection)

    def _add(self, pod: Pod | None, sign: int) -> None:
        place = _node_load(pod)
        if pod is None or place is None:
            return
        self._priorities[pod.priority] += sign
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        node, levels = place[0], self._load_by_priority.setdefault(place[0], {})
        load, level = self._load.setdefault(node, {}), levels.setdefault(pod.priority, {})
        for resource, amount in (*pod.requests.items(), ("pods", 1)):
            load[resource] = load.get(resource, 0) + sign * amount
            level[resource] = level.get(resource, 0) + sign * amount
        # Nodes come and go for as long as the operator runs, each under a name of its own.
        if not level["pods"]:
            del levels[pod.priority]
        if not load["pods"]:
            del self._load[node], self._load_by_priority[node]


def _node_load(pod: Pod | None) -> tuple[str, Mapping[str, int]] | None:
    """Return the node of a bound pod and what it requests there; None when it is unbound or finished."""
    if pod is None or pod.finished or pod.node is None:
        return None
    return pod.node, pod.requests


def _is_selected(pod: Pod | None, selection: PodSelection) -> bool:
    """Say whether a pod that has a node is selected."""
    if pod is None or pod.node is None:
        return False
    return selection.matches(pod.namespace, pod.labels, deleting=pod.deleting)


def _gated(pod: Pod | None) -> bool:
    """Say whether a pod has any scheduling gate, and is neither finished nor being deleted."""
    return pod is not None and bool(pod.gates) and not pod.finished and not pod.deleting


def _group(pod: Pod | None) -> set[tuple[str, str]]:
    return {(pod.namespace, pod.group.name)} if pod is not None and pod.group is not None else set()


def _move(
    index: dict[tuple[str, str], set[str]],
    uid: str,
    before: set[tuple[str, str]],
    after: set[tuple[str, str]],
) -> None:
    """Replace the keys under which a pod is found."""
    for name in before - after:
        uids = index.get(name, set())
        uids.discard(uid)
        if not uids:
            index.pop(name, None)
    for name in after - before:
        index.setdefault(name, set()).add(uid)


def load_of(pod: Pod | None) -> object:
    """Return what a pod takes of a node."""
    return None if pod is None or pod.node is None else (pod.node, pod.finished, pod.requests)
