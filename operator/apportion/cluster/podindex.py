"""PodIndex: pods by the claims that they name, by state, and what bound pods take of their nodes.

In: pods as they come and go. Out: the few that a pass has to look at, and the load of every node.
"""

from collections.abc import Mapping

from apportion.cluster.members import belong
from apportion.dra.pod import Pod


class PodIndex:
    """UIDs of pods, by what matters about them."""

    def __init__(self) -> None:
        self.gated: set[str] = set()
        """With any scheduling gate, and neither finished nor going away."""
        self.unbound: set[str] = set()
        """With claims, without a node, and not finished."""
        self._users: dict[tuple[str, str], set[str]] = {}
        self._load: dict[str, dict[str, int]] = {}

    def put(self, uid: str, old: Pod | None, new: Pod | None) -> None:
        """Replace a pod; None: it is new, or gone."""
        before = {(old.namespace, c.claim) for c in old.claims if c.claim} if old else set()
        after = {(new.namespace, c.claim) for c in new.claims if c.claim} if new else set()
        for name in before - after:
            users = self._users.get(name, set())
            users.discard(uid)
            if not users:
                self._users.pop(name, None)
        for name in after - before:
            self._users.setdefault(name, set()).add(uid)
        live = new is not None and not new.finished
        belong(self.gated, uid, belongs=new is not None and live and bool(new.gates) and not new.deleting)
        belong(self.unbound, uid, belongs=new is not None and live and new.node is None and bool(new.claims))
        if _weighs(old) != _weighs(new):
            self._add(old, -1)
            self._add(new, 1)

    def users(self, namespace: str, name: str) -> list[str]:
        """Return the pods that name a claim, in a stable order."""
        return sorted(self._users.get((namespace, name), ()))

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
