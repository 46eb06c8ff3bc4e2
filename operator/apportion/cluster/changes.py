"""Changes: which nodes, pods and claims changed, for readers that follow the snapshot instead of going through all of it.

In: objects as they come and go, assumed allocations. Out: logs, which every reader reads with a cursor of its own. Where thousands of pods name a claim that
changed, each with others, a pass notes these in steps.
"""

from collections.abc import Iterable, Iterator, Sized

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.bindings import Bindings
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

LEAST_CHANGES = 4_096
"""Changes of a kind that are remembered however few objects there are."""

_AT_ONCE = 1_024
"""Claims of pods that are noted in one piece."""


def most_changes(objects: int) -> int:
    """Return how many changes of so many objects are remembered: a reader that is further behind looks at all of them, which is no more work."""
    return max(LEAST_CHANGES, 2 * objects)


class Changes:
    """One log for each kind of change."""

    def __init__(self, nodes: Sized, pods: Sized, claims: Sized) -> None:
        """All that there are."""
        self._nodes, self._pods, self._claims = nodes, pods, claims
        self.bindings = Bindings()
        self.hosts: ChangeLog[str] = ChangeLog()
        """Names of nodes that changed, or whose bound pods did."""
        self.pods: ChangeLog[str] = ChangeLog()
        """UIDs of pods that changed, or whose claims did."""
        self.claims: ChangeLog[tuple[str, str]] = ChangeLog()
        """Namespaces and names of claims that changed, or whose pods or these pods' other claims did."""
        self._left: dict[str, Pod] = {}
        """Pods, by UID, whose claims are to be noted yet."""
        self._names: dict[tuple[str, str], None] = {}
        """What was found of them: pods that share claims name the same."""

    def host(self, name: str) -> None:
        """Note that a node or its bound pods changed."""
        self.hosts.add(name, most=most_changes(len(self._nodes)))

    def pod(self, uid: str, *versions: Pod | None) -> None:
        """Note that a pod changed, from one version to another."""
        self.pods.add(uid, most=most_changes(len(self._pods)))
        self.bindings.note(uid, *versions)
        self._left.pop(uid, None)
        former = None
        for pod in versions:
            if pod is not None and pod.claims != former:
                self._claims_of(pod)
                former = pod.claims

    def claim(self, claim: Claim, users: Iterable[Pod]) -> None:
        """Note that a claim changed, or was given devices by a decision; `users`: the pods that name it."""
        self._note((claim.namespace, claim.name))
        noted = 0
        for user in users:
            self.pods.add(user.uid, most=most_changes(len(self._pods)))
            if len(user.claims) > 1 and noted < _AT_ONCE:
                noted += len(user.claims)
                self._claims_of(user)
            elif len(user.claims) > 1:
                self._left[user.uid] = user

    def steps(self) -> Iterator[None]:
        """Note what too many pods name to be noted at once; yields where others may run. What is given up is left to the next call."""
        read = 0
        while self._left:
            _, pod = self._left.popitem()
            self._names.update({(pod.namespace, each.claim): None for each in pod.claims if each.claim})
            read += len(pod.claims)
            if read >= _AT_ONCE:
                read = 0
                yield
        while self._names:
            self._note(self._names.popitem()[0])
            read += 1
            if read % _AT_ONCE == 0:
                yield

    def _claims_of(self, pod: Pod) -> None:
        for entry in pod.claims:
            if entry.claim is not None:
                self._note((pod.namespace, entry.claim))

    def _note(self, name: tuple[str, str]) -> None:
        self.claims.add(name, most=most_changes(len(self._claims)))
