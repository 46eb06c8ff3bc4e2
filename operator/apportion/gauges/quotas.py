"""Samples about quotas.

In: the use of each quota, the demands that wait for it. Out: samples, in the units of the resource.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from apportion.dra.quantity import NANO
from apportion.gauges import described
from apportion.gauges.described import Sample
from apportion.quota.totals import Totals
from apportion.quota.use import Excess, QuotaUse

_LARGEST = int(sys.float_info.max)
"""A capacity may be up to 10^1000, and a floating-point number is not."""


def quota_samples(
    usage: Iterable[QuotaUse], totals: Totals, pending: Mapping[str, Sequence[Excess | None]]
) -> Iterator[Sample]:
    """Yield the values of each quota; `pending`: for each demand that waits the limit for which it does, None: it waits for devices."""
    for use in usage:
        waiting = Counter(
            each.resource.name if each is not None else "" for each in pending.get(use.name, ())
        )
        yield Sample(described.QUOTA_SHARE, (use.name,), use.share(totals.of))
        yield Sample(described.QUOTA_PENDING, (use.name, ""), waiting[""])
        for index, (resource, used) in enumerate(zip(use.resources, use.used, strict=True)):
            labels = use.name, resource.name
            yield Sample(described.QUOTA_USED, labels, _units(used))
            yield Sample(described.QUOTA_GUARANTEED, labels, _units(resource.guaranteed))
            if resource.limit is not None:
                yield Sample(described.QUOTA_LIMIT, labels, _units(resource.limit))
            yield Sample(described.QUOTA_BORROWED, labels, _units(use.borrowed(index)))
            yield Sample(described.QUOTA_PENDING, labels, waiting[resource.name])


def _units(nano: int) -> float:
    """Return an amount in units of its resource."""
    return min(nano, _LARGEST) / NANO
