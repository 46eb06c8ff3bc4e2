"""PendingClaims: metrics of what waits, by namespace and DeviceClass.

In: the snapshot. Out: two metrics, counted when Prometheus asks, so that no pass pays for them; claims that did not change
since it asked before are not looked at.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.waiting import immediate


class PendingClaims(Collector):
    """Claims of our classes that have no allocation, and that a pod names or an annotation wants without one."""

    def __init__(self, snapshot: Snapshot, now: Callable[[], datetime]) -> None:
        self._snapshot = snapshot
        self._now = now
        self._cursor = -1
        """How far the changes of claims were read."""
        self._managed: ManagedClasses | None = None
        self._pending: dict[tuple[str, str], tuple[frozenset[str], str]] = {}
        """Our DeviceClasses that a claim names, and when it was created, by namespace and name."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        self._follow()
        counts: Counter[tuple[str, str]] = Counter()
        oldest: dict[str, str] = {}
        for (namespace, _), (classes, created) in self._pending.items():
            for device_class in classes:
                counts[namespace, device_class] += 1
            oldest[namespace] = min(oldest.get(namespace, created), created)
        pending = GaugeMetricFamily(
            "apportion_pending_claims",
            "Claims that wait for devices; one that names several DeviceClasses counts for each.",
            labels=["namespace", "device_class"],
        )
        for (namespace, name), count in sorted(counts.items()):
            pending.add_metric([namespace, name], count)
        age = GaugeMetricFamily(
            "apportion_oldest_pending_claim_seconds",
            "Age of the oldest claim that waits for devices, in seconds.",
            labels=["namespace"],
        )
        for namespace, created in sorted(oldest.items()):
            age.add_metric([namespace], (self._now() - datetime.fromisoformat(created)).total_seconds())
        yield pending
        yield age

    def _follow(self) -> None:
        """Look at the claims that changed since the former call."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        if managed is not self._managed or changed is None:
            self._managed = managed
            self._pending.clear()
            unallocated = snapshot.claims_of(snapshot.claim_index.unallocated)
            changed = [(claim.namespace, claim.name) for claim in unallocated]
        for key in {*changed}:
            self._pending.pop(key, None)
            claim = snapshot.claim(*key)
            if claim is None or snapshot.allocation(claim) is not None:
                continue
            classes = claim.classes & managed.policies.keys()
            if classes and (immediate(claim) or snapshot.pod_index.has_users(*key)):
                self._pending[key] = classes, claim.created
