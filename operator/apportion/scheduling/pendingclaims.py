"""PendingClaims: metrics of what waits, by namespace and DeviceClass.

In: the snapshot. Out: two metrics, counted when Prometheus asks, so that no pass pays for them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.waiting import immediate


class PendingClaims(Collector):
    """Claims of our classes that have no allocation, and that a pod names or an annotation wants without one."""

    def __init__(self, snapshot: Snapshot, now: Callable[[], datetime]) -> None:
        self._snapshot = snapshot
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        counts: Counter[tuple[str, str]] = Counter()
        oldest: dict[str, str] = {}
        snapshot, managed = self._snapshot, self._snapshot.managed.policies
        for claim in snapshot.claims_of(snapshot.claim_index.unallocated):
            names = claim.classes & managed.keys()
            if not names or snapshot.allocation(claim) is not None:
                continue
            if not immediate(claim) and not snapshot.pod_index.has_users(claim.namespace, claim.name):
                continue
            counts.update((claim.namespace, name) for name in names)
            oldest[claim.namespace] = min(oldest.get(claim.namespace, claim.created), claim.created)
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
