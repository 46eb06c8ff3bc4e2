"""Granted: those that were served by a preemption, until one of their pods has been bound, or it is known that none will be.

In: who was served, who waits. Out: for whom a pod was bound, and for whom all was in vain: its devices were taken back, or its claims are gone, before a pod had them.
"""

from collections.abc import Collection, Iterator, Mapping

from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.preemption.preemptor import Preemptor


class Granted:
    """Those of which nobody knows yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._preemptors: dict[str, Preemptor] = {}
        """By key."""

    @property
    def preemptors(self) -> Collection[Preemptor]:
        """Return them."""
        return self._preemptors.values()

    def add(self, preemptor: Preemptor) -> None:
        """Follow one that has its devices."""
        self._preemptors[preemptor.key] = preemptor

    def drop(self, key: str) -> None:
        """Follow one no longer."""
        self._preemptors.pop(key, None)

    def clear(self) -> None:
        """Follow none."""
        self._preemptors.clear()

    def settled(self, waiting: Mapping[str, object]) -> Iterator[tuple[Preemptor, bool]]:
        """Yield those of which it is known by now whether a pod has been bound, and follow them no longer; `waiting`: the demands that wait, by UID of each of their claims."""
        for preemptor in tuple(self._preemptors.values()):
            claims = [self._snapshot.claims.get(claim.uid) for claim in preemptor.demand.claims]
            bound = self.is_bound(preemptor)
            waits = any(claim.uid in waiting for claim in preemptor.demand.claims)
            if bound or waits or all(claim is None for claim in claims):
                self.drop(preemptor.key)
                yield preemptor, bound

    def is_bound(self, preemptor: Preemptor) -> bool:
        """Say whether a pod of one has been bound, which may be gone by now."""
        claims = self._snapshot.claims_of([claim.uid for claim in preemptor.demand.claims])
        users: list[Pod] = [pod for claim in claims for pod in self._snapshot.users(claim)]
        bound = any(pod.node is not None for pod in users)
        return bound or self._snapshot.changes.bindings.any_of(preemptor.demand.pods)
