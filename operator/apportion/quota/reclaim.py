"""reclaimable(): from which namespaces a demand within its guarantee may take devices back, and how much of what.

In: the use of a demand's quota, what the demand asks of it, the other quotas. Out: the quotas of the cohort that have more than is
guaranteed to them, of resources that the demand can use. What is within a guarantee is never named.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from apportion.quota.resource import Resource
from apportion.quota.use import Amounts, QuotaUse


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """A quota that has borrowed."""

    quota: str
    namespaces: frozenset[str]
    """Those that share what is borrowed; a claim of any of them may be a victim."""
    resources: tuple[tuple[Resource, int], ...]
    """Resources of that quota with the amount beyond its guarantee, in 10^-9: no more than this may be taken back."""


def reclaimable(use: QuotaUse, asked: Amounts, others: Iterable[QuotaUse]) -> tuple[Reclaimable, ...]:
    """Return who has borrowed what this demand may have by its guarantee, the one with the most namespaces' worth last; () if it may not.

    `asked`: what the demand takes of each resource of its own quota, as `least` or `QuotaUse.amounts` say.
    """
    cohort = use.quota.spec.cohort
    if cohort is None or not any(asked) or not use.within_guarantee(asked):
        return ()
    mine = [resource for resource, amount in zip(use.resources, asked, strict=True) if amount]
    found = []
    for other in others:
        if other is use or other.quota.spec.cohort != cohort:
            continue
        beyond = tuple(
            (resource, other.borrowed(index))
            for index, resource in enumerate(other.resources)
            if other.borrowed(index) and any(map(resource.overlaps, mine))
        )
        if beyond:
            found.append(Reclaimable(other.name, other.namespaces, beyond))
    return tuple(sorted(found, key=lambda each: each.quota))
