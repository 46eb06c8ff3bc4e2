"""PendingClaims: what waits, by namespace, DeviceClass and reason.

In: the snapshot, the reasons of the last Events. Out: samples. Claims that did not change since it was asked last are not read again, so
that no pass pays for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.gauges import described
from apportion.gauges.described import MOST_NAMESPACES, OTHERS, Sample
from apportion.scheduling.waiting import immediate

UNDECIDED = "Undecided"
"""Of a claim about which no Event was recorded yet."""

SERVED = "Allocated"
"""The reason of an Event about a claim that is served: one that waits all the same has lost its devices since."""


class _Pending(NamedTuple):
    uid: str
    classes: frozenset[str]
    """Our DeviceClasses that it names; none where one of those that it names does not exist."""
    created: str


class PendingClaims:
    """Claims of our classes that have no allocation, and that a pod names or an annotation wants without one."""

    def __init__(
        self, snapshot: Snapshot, reason: Callable[[str], str | None], now: Callable[[], datetime]
    ) -> None:
        """`reason` returns that of the last Event about an object (UID); None: there was none, or it is over."""
        self._snapshot = snapshot
        self._reason = reason
        self._now = now
        self._cursor = -1
        """How far the changes of claims were read."""
        self._changed: dict[tuple[str, str], None] = {}
        """Claims that are to be read; steps that are abandoned lose none of them."""
        self._all: list[str] = []
        """The same, by UID, where all are to be read."""
        self._managed: ManagedClasses | None = None
        self._pending: dict[tuple[str, str], _Pending] = {}
        """By namespace and name."""

    def steps(self) -> Iterator[None]:
        """Look at the claims that changed; yields where others may run."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        if managed is not self._managed or changed is None:
            self._managed = managed
            self._pending.clear()
            self._all = list(snapshot.claim_index.unallocated)
        self._changed |= dict.fromkeys(changed or ())
        while self._all:
            yield
            claim = snapshot.claims.get(self._all.pop())
            if claim is not None:
                self._changed[claim.namespace, claim.name] = None
        for key in tuple(self._changed):
            yield
            del self._changed[key]
            self._pending.pop(key, None)
            claim = snapshot.claim(*key)
            if claim is None or snapshot.allocation(claim) is not None:
                continue
            classes, unknown = claim.classes & managed.policies.keys(), managed.unknown(claim)
            wanted = immediate(claim) or snapshot.pod_index.has_users(*key)
            if (classes or unknown) and wanted:
                self._pending[key] = _Pending(claim.uid, frozenset() if unknown else classes, claim.created)

    def samples(self) -> Iterator[Sample | None]:
        """Yield the values as of the last `steps`, and None where others may run."""
        counts: Counter[tuple[str, str]] = Counter()
        sizes: Counter[str] = Counter()
        oldest: dict[str, str] = {}
        reasons: Counter[str] = Counter()
        oldest_for: dict[str, str] = {}
        for (namespace, name), each in tuple(self._pending.items()):
            yield None
            reason = self._why(namespace, name, each.uid)
            reasons[reason] += 1
            oldest_for[reason] = min(oldest_for.get(reason, each.created), each.created)
            for device_class in each.classes:
                counts[namespace, device_class] += 1
            if each.classes:
                sizes[namespace] += 1
                oldest[namespace] = min(oldest.get(namespace, each.created), each.created)
        shown = {namespace for namespace, _ in sizes.most_common(MOST_NAMESPACES)}
        merged: Counter[tuple[str, str]] = Counter()
        ages: dict[str, str] = {}
        for (namespace, device_class), count in counts.items():
            label = namespace if namespace in shown else OTHERS
            merged[label, device_class] += count
            ages[label] = min(ages.get(label, oldest[namespace]), oldest[namespace])
        for pair, count in sorted(merged.items()):
            yield Sample(described.PENDING_CLAIMS, pair, count)
        for label, created in sorted(ages.items()):
            yield Sample(described.OLDEST_PENDING, (label,), self._age(created))
        for reason, count in sorted(reasons.items()):
            yield Sample(described.QUEUE, (reason,), count)
            yield Sample(described.QUEUE_OLDEST, (reason,), self._age(oldest_for[reason]))

    def _why(self, namespace: str, name: str, uid: str) -> str:
        """Return the reason for which a claim waits, as its Events or those of its pods say."""
        found = self._reason(uid)
        if found not in (None, SERVED):
            return found
        for pod in self._snapshot.pod_index.users(namespace, name):
            found = self._reason(pod)
            if found not in (None, SERVED):
                return found
        return UNDECIDED

    def _age(self, created: str) -> float:
        return (self._now() - datetime.fromisoformat(created)).total_seconds()
