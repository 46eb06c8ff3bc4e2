"""PodIndex: pods by the claims that they name, by state, and what bound pods take of their nodes.

In: pods as they come and go. Out: the few that a pass has to look at, and the load of every node.
"""

from collections import OrderedDict
from collections.abc import Mapping

from apportion.cluster.members import belong
from apportion.dra.pod import Pod

_REMEMBERED = 10_000


class PodIndex:
    """UIDs of pods, by what matters about them."""

    def __init__(self) -> None:
        self.gated: set[str] = set()
        """With any scheduling gate, and neither finished nor going away."""
        self.unbound: set[str] = set()
        """With claims, without a node, and not finished."""
        self._users: dict[tuple[str, str], set[str]] = {}
        self._members: dict[tuple[str, str], set[str]] = {}
        self._load: dict[str, dict[str, int]] = {}
        self._cut_off: OrderedDict[str, None] = OrderedDict()
        """UIDs of the pods that went last before they had ended on their node."""

    def put(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        """Replace a pod; None: it is new, or gone."""
        before = {(old.namespace, c.claim) for c in old.claims if c.claim} if old else set()
        after = {(new.namespace, c.claim) for c in new.claims if c.claim} if new else set()
        _move(self._users, uid, before, after)
        _move(self._members, uid, _group(old), _group(new))
        live = new is not None and not new.finished
        belong(self.gated, uid, belongs=new is not None and live and bool(new.gates) and not new.deleting)
        belong(self.unbound, uid, belongs=new is not None and live and new.node is None and bool(new.claims))
        if _weighs(old) != _weighs(new):
            self._add(old, -1)
            self._add(new, 1)
        if new is None and _weighs(old) is not None:
            self._cut_off[uid] = None
            while len(self._cut_off) > _REMEMBERED:
                self._cut_off.popitem(last=False)

    def users(self, namespace: str, name: str) -> list[str]:
        """Return the pods that name a claim, in a stable order."""
        return sorted(self._users.get((namespace, name), ()))

    def members(self, namespace: str, group: str) -> list[str]:
        """Return the pods of a group, in a stable order."""
        return sorted(self._members.get((namespace, group), ()))

    def cut_off(self, uid: str) -> bool:
        """Say whether a pod that is gone was bound and was not seen to end: its containers may run.

        kubelet ends a pod's phase before it lets the pod go (KEP-3329); only a pod deleted by force goes without.
        """
        return uid in self._cut_off

    def load(self, node: str) -> Mapping[str, int]:
        """Return what pods that are bound to the node request of it, `pods` included."""
        return self._load.get(node, {})

    def _add(self, pod: Pod | None, sign: int) -> None:
        place = _weighs(pod)
        if pod is None or place is None:
            return
        load = self._load.setdefault(place[0], {})
        for resource, amount in (*pod.requests.items(), ("pods", 1)):
            load[resource] = load.get(resource, 0) + sign * amount


def _weighs(pod: Pod | None) -> tuple[str, Mapping[str, int]] | None:
    """Return the node that a pod weighs upon, and how much; a finished pod weighs nothing."""
    if pod is None or pod.finished or pod.node is None:
        return None
    return pod.node, pod.requests


def _group(pod: Pod | None) -> set[tuple[str, str]]:
    return {(pod.namespace, pod.group.name)} if pod is not None and pod.group is not None else set()


def _move(
    index: dict[tuple[str, str], set[str]],
    uid: str,
    before: set[tuple[str, str]],
    after: set[tuple[str, str]],
) -> None:
    """Let a pod be found under other names than before."""
    for name in before - after:
        uids = index.get(name, set())
        uids.discard(uid)
        if not uids:
            index.pop(name, None)
    for name in after - before:
        index.setdefault(name, set()).add(uid)
