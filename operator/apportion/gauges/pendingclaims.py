"""PendingClaims: what waits, by namespace, DeviceClass and reason.

In: the snapshot, the reasons of the last Events. Out: samples. Claims that did not change since it was asked last are not read again, so
that no pass pays for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.gauges import described
from apportion.gauges.described import MOST_NAMESPACES, OTHERS, Sample
from apportion.scheduling.demands.waiting import immediate, ready

UNDECIDED = "Undecided"
"""Of a claim about which no Event was recorded yet."""

SERVED = "Allocated"
"""The reason of an Event about a claim that is served: one that waits all the same has lost its devices since."""


class _Pending(NamedTuple):
    uid: str
    classes: frozenset[str]
    """Our DeviceClasses that it names; none where one of those that it names does not exist."""
    since: str
    """Since when it waits (RFC 3339)."""


class PendingClaims:
    """Claims of our classes that have no allocation, and that a pod behind no gate but ours names or an annotation wants without one."""

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
        self._since: dict[str, str] = {}
        """By UID: since when a claim waits."""
        self._looked = ""
        """When the claims were looked at last: who did not wait then waits since then at the earliest."""

    def steps(self) -> Iterator[None]:
        """Look at the claims that changed; yields where others may run."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        began = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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
            found = self._read(*key)
            if found is not None:
                self._pending[key] = found
        self._looked = began
        if len(self._since) > len(self._pending):
            self._since = {each.uid: each.since for each in self._pending.values()}

    def _read(self, namespace: str, name: str) -> _Pending | None:
        """Return a claim if it waits."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        claim = snapshot.claim(namespace, name)
        if claim is None:
            return None
        waits = [pod.created for pod in snapshot.users(claim) if ready(pod)]
        unserved = snapshot.allocation(claim) is None and not claim.deleting
        classes, unknown = claim.classes & managed.policies.keys(), managed.unknown(claim)
        if not (unserved and (waits or immediate(claim)) and (classes or unknown)):
            self._since.pop(claim.uid, None)
            return None
        asked = claim.created if immediate(claim) else max(claim.created, min(waits))
        since = self._since.setdefault(claim.uid, max(asked, self._looked))
        return _Pending(claim.uid, frozenset() if unknown else classes, since)

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
            oldest_for[reason] = min(oldest_for.get(reason, each.since), each.since)
            for device_class in each.classes:
                counts[namespace, device_class] += 1
            if each.classes:
                sizes[namespace] += 1
                oldest[namespace] = min(oldest.get(namespace, each.since), each.since)
        shown = {namespace for namespace, _ in sizes.most_common(MOST_NAMESPACES)}
        merged: Counter[tuple[str, str]] = Counter()
        ages: dict[str, str] = {}
        for (namespace, device_class), count in counts.items():
            label = namespace if namespace in shown else OTHERS
            merged[label, device_class] += count
            ages[label] = min(ages.get(label, oldest[namespace]), oldest[namespace])
        for pair, count in sorted(merged.items()):
            yield Sample(described.PENDING_CLAIMS, pair, count)
        for label, since in sorted(ages.items()):
            yield Sample(described.OLDEST_PENDING, (label,), self._age(since))
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

    def _age(self, since: str) -> float:
        return max(0.0, (self._now() - datetime.fromisoformat(since)).total_seconds())
