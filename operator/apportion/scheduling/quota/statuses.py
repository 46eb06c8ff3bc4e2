"""QuotaStatuses: writes the statuses of quotas, once a second at most and only where they changed.

In: the use of quotas, what waits. Out: patches of their status, and Events about names that stand for nothing. It also keeps the cluster's totals, by which shares are measured.
Few are written in a second, those first that were not for the longest time: nobody's devices come by them, and where pods of hundreds of tenants come and
go they kept the API server from the writes by which pods start.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog

from apportion.api.conditions import same
from apportion.api.quota import AcceleratorQuota
from apportion.api.unresolved import newly_unresolved
from apportion.cluster.client import Client
from apportion.cluster.kinds import QUOTAS
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.errors import ApiError, Missing, NotLeading, Overtaken
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.status import quota_status

_log = structlog.get_logger()
PAUSE = 1.0
"""Seconds between two looks at all quotas: their use moves with every claim."""
MOST_WRITTEN: Final = 10
"""Statuses that are written after a look."""
_LOOKED_AT_ONCE: Final = 32
"""Quotas that are looked at before others run: a tenth of a millisecond each."""


class QuotaStatuses:
    """Writes statuses while this replica leads."""

    def __init__(
        self,
        client: Client,
        snapshot: Snapshot,
        recorder: Recorder,
        admission: Admission,
        *,
        fence: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._recorder = recorder
        self._admission = admission
        self._fence = fence
        self._now = now
        self.pending: Mapping[str, Sequence[Excess | None]] = {}
        """The demands of each quota that waited when it was last looked: for each the limit for which it does, None for devices."""
        self._read: object = None
        """Epochs of slices, quotas and classes in which the totals were read."""
        self._seen: dict[str, tuple[object, ...]] = {}
        """By name: all by which the status of a quota was found to be as it is."""
        self._written: dict[str, None] = {}
        """The quotas (by name) that were written, the latest at the end."""

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            await asyncio.sleep(PAUSE)
            await self.act()

    async def act(self) -> None:
        """Read the totals anew where devices changed, and write what changed."""
        quotas = self._snapshot.quota_index.quotas
        if not quotas:
            return
        for _ in self._admission.charging.steps():
            await asyncio.sleep(0)
        await self._total()
        self.pending = pending = self._admission.pending()
        uses = {use.name: use for use in self._admission.charging.usage}
        self._seen = {name: seen for name, seen in self._seen.items() if name in uses}
        self._written = {name: None for name in self._written if name in uses}
        written = 0
        for number, name in enumerate([*(uses.keys() - self._written.keys()), *self._written], 1):
            if number % _LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            written += await self._write(uses[name], pending.get(name, []))
            if written == MOST_WRITTEN:
                return

    async def _total(self) -> None:
        state = self._snapshot.slice_epoch, self._snapshot.quota_index.epoch, self._snapshot.partition_epoch
        if state != self._read:
            for _ in self._admission.total():
                await asyncio.sleep(0)
            self._read = state

    async def _write(self, use: QuotaUse, waiting: list[Excess | None]) -> bool:
        """Write the status of a quota if it changed; says whether that was tried."""
        quota = self._current(use)
        if quota is None:
            return False
        over = Counter(each.resource.name if each is not None else "" for each in waiting)
        seen = quota, use, use.version, over, self._read, self._snapshot.managed
        if self._seen.get(use.name) == seen:
            return False
        metadata = quota.metadata
        use.quota = quota
        status = quota_status(use, waiting, self._admission.totals, self._snapshot, self._now())
        if same(quota.status.to_json(), status):
            self._seen[use.name] = seen
            return False
        self._written.pop(use.name, None)
        self._written[use.name] = None
        if (news := newly_unresolved(quota.status.conditions, status)) is not None:
            self._recorder.warning(About(QUOTAS, metadata.name, metadata.uid), "Unresolved", news)
        body = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
        try:
            self._fence()
            made = await self._client.patch(QUOTAS, metadata.name, body, sub="status")
        except NotLeading:
            return True
        except (Overtaken, Missing) as error:
            # Somebody else wrote first: the watch will show the quota as it is now, or its deletion.
            _log.debug("quota.overtaken", quota=metadata.name, error=str(error))
        except ApiError as error:
            _log.warning("quota.write_failed", quota=metadata.name, error=str(error))
        else:
            # Observed at once: a look before the watch shows our own write would repeat it.
            self._snapshot.observe(QUOTAS, "MODIFIED", made)
        return True

    def _current(self, use: QuotaUse) -> AcceleratorQuota | None:
        """Return the quota as it is now; None: it is gone, it cannot be read, or the use was counted by another spec of it."""
        uid = use.quota.metadata.uid
        found = self._snapshot.quota_index.quotas.get(uid) if uid not in self._snapshot.broken else None
        return found if found is not None and found.spec == use.quota.spec else None
