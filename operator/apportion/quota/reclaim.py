"""reclaimable(): from which quotas a demand within its guarantee may take devices back, and by which of their resources.

In: the use of a demand's quota, what the demand asks of it, the other quotas. Out: the quotas of the cohort that have more than is
guaranteed to them, of resources that the demand can use. Both sides have `reclaimWithinCohort: Any`. What is within a guarantee is
never named.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from apportion.quota.use import Amounts, QuotaUse


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """A quota that has borrowed."""

    use: QuotaUse
    resources: tuple[int, ...]
    """Positions of the resources of that quota of which it has more than its guarantee, and which the demand can use."""


def reclaimable(use: QuotaUse, asked: Amounts, others: Iterable[QuotaUse]) -> tuple[Reclaimable, ...]:
    """Return who has borrowed what this demand may have by its guarantee; () if it may not.

    `asked`: what the demand takes of each resource of its own quota, as `least` or `QuotaUse.amounts` say. Where nothing is known of
    it, it may be whatever is left of a guarantee.
    """
    if not use.reclaims or not use.within_guarantee(asked):
        return ()
    rows = [*zip(use.resources, asked, use.used, strict=True)]
    mine = [one for one, amount, _ in rows if amount] or [
        one for one, _, used in rows if used < one.guaranteed
    ]
    found = []
    for other in others:
        if other is use or not other.reclaims or other.quota.spec.cohort != use.quota.spec.cohort:
            continue
        beyond = tuple(
            index
            for index, resource in enumerate(other.resources)
            if other.borrowed(index) and any(map(resource.overlaps, mine))
        )
        if beyond:
            found.append(Reclaimable(other, beyond))
    return tuple(sorted(found, key=lambda each: each.use.name))
