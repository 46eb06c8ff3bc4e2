"""Dues: when those that wait are due in their cohort, beside their priority and age.

In: demands and groups, the use of quotas. Out: whether one borrows, and what its quota has. One that is asked about often in a pass costs a
look-up, unless the use of its quota has changed.
"""

from collections.abc import Callable
from typing import TypeAlias

from apportion.quota.use import QuotaUse, Total
from apportion.scheduling.demands.groups import Queued, demands_of, key_of
from apportion.scheduling.quota.charging import Charging

Due: TypeAlias = tuple[str, bool, float]
"""A cohort; whether one borrows there; how much its quota has of what the cohort shares, as a weighted dominant share."""


class Dues:
    """Remembers for a pass."""

    def __init__(self, charging: Charging, total: Total, shares: Callable[[], bool]) -> None:
        """`total`: of the cluster; `shares`: whether some devices give shares."""
        self._charging, self._total, self._shares = charging, total, shares
        self._known: dict[str, tuple[QuotaUse, int, Due]] = {}
        """By key; as of which version of which use."""

    def begin(self) -> None:
        """Start a pass: demands, totals and shares may be others."""
        self._known.clear()

    def of(self, queued: Queued) -> Due | None:
        """Return when what is decided at once is due; None: it has no cohort."""
        self._charging.follow()
        demands, key = demands_of(queued), key_of(queued)
        use = self._charging.usage.of(demands[0].claims[0].namespace)
        if use is None or use.quota.spec.cohort is None:
            return None
        known = self._known.get(key)
        if known is not None and known[0] is use and known[1] == use.version:
            return known[2]
        claims = [claim for demand in demands for claim in demand.claims]
        within = use.within_guarantee(self._charging.dearest(claims, use, shares=self._shares()))
        due = use.quota.spec.cohort, not within, use.share(self._total)
        self._known[key] = use, use.version, due
        return due
