"""Gauges: the collector of what is computed when Prometheus asks.

In: the parts of the operator, all of which live on the event loop. Out: frozen families. `refresh` computes them on the loop, in slices
between which others run; `collect` only returns them, so that rendering them, in any thread, reads nothing that changes.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apportion.cluster import kinds
from apportion.cluster.snapshot import Snapshot
from apportion.gauges import described
from apportion.gauges.described import Sample, families
from apportion.gauges.fleet import Fleet
from apportion.gauges.pendingclaims import PendingClaims
from apportion.gauges.quotas import quota_samples
from apportion.quota.use import Excess
from apportion.scheduling.quota.admission import Admission

SLICE = 0.005
"""Seconds of work after which others run."""
_log = structlog.get_logger()


class Gauges(Collector):
    """What only a running operator knows; nothing while another replica acts, so that sums over replicas are right."""

    def __init__(
        self,
        snapshot: Snapshot,
        pending: PendingClaims,
        quotas: Admission,
        *,
        acting: Callable[[], bool],
        waiting: Callable[[], Mapping[str, Sequence[Excess | None]]],
        reserved: Callable[[], Collection[object]],
        unanswered: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`waiting`: the demands of each quota that wait; `reserved`: those for which devices are kept; `unanswered`: writes."""
        self._snapshot = snapshot
        self._fleet = Fleet(snapshot)
        self._pending = pending
        self._quotas = quotas
        self._acting = acting
        self._waiting = waiting
        self._reserved = reserved
        self._unanswered = unanswered
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._families = families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families as of the last `refresh`."""
        yield from self._families

    async def refresh(self) -> None:
        """Compute everything anew. A defect here is logged, and takes nothing but these gauges away."""
        async with self._one_at_a_time:
            try:
                self._families = await self._computed() if self._acting() else families()
            except Exception:  # noqa: BLE001 - whatever it is, counters and histograms are served all the same
                _log.exception("gauges.defect")
                self._families = families()

    async def _computed(self) -> tuple[GaugeMetricFamily, ...]:
        found = families()
        made = dict(zip(described.ALL, found, strict=True))
        ends = self._clock() + SLICE
        for each in self._steps():
            if each is not None:
                made[each.gauge].add_metric(each.labels, each.value)
            if self._clock() >= ends:
                await asyncio.sleep(0)
                ends = self._clock() + SLICE
        return found

    def _steps(self) -> Iterator[Sample | None]:
        """Yield all samples, and None where others may run."""
        yield from self._fleet.steps()
        yield from self._fleet.samples()
        yield from self._pending.steps()
        yield from self._pending.samples()
        yield from quota_samples(tuple(self._quotas.charging.usage), self._quotas.totals, self._waiting())
        yield from self._counts()

    def _counts(self) -> Iterator[Sample]:
        snapshot = self._snapshot
        yield Sample(described.ALLOCATED, (), len(snapshot.claim_index.allocated))
        yield Sample(described.RESERVED, (), len(self._reserved()))
        yield Sample(described.UNANSWERED, (), self._unanswered())
        # Others run between two samples.
        for (driver, phase), count in tuple(snapshot.devices.phases.items()):
            yield Sample(described.PARTITIONS, (driver, phase), count)
        for kind, objects in (
            (kinds.NODES, snapshot.nodes),
            (kinds.PODS, snapshot.pods),
            (kinds.CLAIMS, snapshot.claims),
            (kinds.SLICES, snapshot.slices),
            (kinds.PARTITIONS, snapshot.partitions),
        ):
            yield Sample(described.OBJECTS, (kind.plural,), len(objects))
        for name, count in Counter(each.kind.plural for each in snapshot.broken.values()).items():
            yield Sample(described.UNREADABLE, (name,), count)
