"""QuotaUse: what the namespaces of one quota have of each of its resources.

In: charges that come and go. Out: what is left under the limits, what is borrowed beyond the guarantees, the weighted dominant share.
Dominant share: Ghodsi et al., "Dominant Resource Fairness", NSDI 2011, of what is beyond the guarantee.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from apportion.api.quota import AcceleratorQuota, Reclaim
from apportion.dra.quantity import NANO
from apportion.quota.bounds import Bounds
from apportion.quota.charge import Charge
from apportion.quota.resource import Resource, Selection

Total: TypeAlias = Callable[[Selection], int]
"""Returns how much of a resource the cluster has, in 10^-9."""
Amounts: TypeAlias = Sequence[int]
"""An amount for each resource of a quota, in their order."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A resource of which more is asked than its limit leaves."""

    quota: str
    resource: Resource
    used: int
    asked: int
    unpublished: int = 0
    """Devices in use that no slice has now, and that may count in it."""

    @property
    def left(self) -> int:
        """What the limit leaves, if each device that is not published counts in it, and has whatever is left of a capacity."""
        resource, left = self.resource, (self.resource.limit or 0) - self.used
        if resource.capacity:
            return min(left, 0) if self.unpublished else left
        return left - self.unpublished * NANO

    def __str__(self) -> str:
        """Name quota, resource and amounts."""
        text, limit = self.resource.text, self.resource.limit or 0
        return (
            f"AcceleratorQuota {self.quota}, resource {self.resource.name}: used {text(self.used)},"
            f" asked {text(self.asked)}, limit {text(limit)}"
            + (
                f"; {self.unpublished} in use are not published now, and may count"
                if self.unpublished
                else ""
            )
        )


@dataclass(slots=True, eq=False)
class QuotaUse:
    """The use of one quota."""

    quota: AcceleratorQuota
    namespaces: frozenset[str]
    resources: tuple[Resource, ...] = field(init=False)
    bounds: Bounds = field(init=False)
    """Of the claims that may count in them."""
    used: list[int] = field(init=False)
    """Of each resource."""
    unpublished: list[int] = field(init=False)
    """Of each resource, how many devices in use may count in it that no slice has now."""
    version: int = 0
    """Grows with every change of the use."""

    def __post_init__(self) -> None:
        """Read the entries."""
        self.resources = tuple(map(Resource.of, self.quota.spec.resources))
        self.bounds = Bounds(self.resources)
        self.used = [0] * len(self.resources)
        self.unpublished = [0] * len(self.resources)

    @property
    def name(self) -> str:
        """Name of the quota."""
        return self.quota.metadata.name

    def amounts(self, charges: Iterable[Charge]) -> list[int]:
        """Return what charges take of each resource."""
        found = [*charges]
        return [sum(map(resource.amount, found)) for resource in self.resources]

    def add(self, charges: Iterable[Charge], count: int = 1) -> None:
        """Count charges so many times, or as often no longer where the count is negative."""
        for charge in charges:
            for index, resource in enumerate(self.resources):
                self.used[index] += count * resource.amount(charge)
                self.unpublished[index] += count * resource.may_count(charge)
        self.version += 1

    def excess(self, asked: Amounts) -> Excess | None:
        """Return the first resource of which this would be too much, or may be; what takes nothing of a resource never is."""
        rows = zip(self.resources, self.used, self.unpublished, asked, strict=True)
        for resource, used, unpublished, more in rows:
            if more and resource.limit is not None and (unpublished or used + more > resource.limit):
                found = Excess(self.name, resource, used, more, unpublished)
                if more > found.left:
                    return found
        return None

    def within_guarantee(self, asked: Amounts, ahead: Amounts | None = None) -> bool:
        """Say whether this stays within the guarantee of each resource it takes; `ahead`: what goes before it."""
        rows = zip(self.resources, self.used, asked, ahead or [0] * len(asked), strict=True)
        return all(not more or used + first + more <= one.guaranteed for one, used, more, first in rows)

    def beyond_guarantee(self, asked: Amounts) -> list[Resource]:
        """Return the resources of which this takes more than the guarantee leaves."""
        rows = zip(self.resources, self.used, asked, strict=True)
        return [one for one, used, more in rows if more and used + more > one.guaranteed]

    def takeable(self, asked: Amounts) -> list[Resource]:
        """Return the resources in which this may count, as far as it stays within the guarantee; none where it does not.

        Where nothing is known of it, it may be whatever is left of a guarantee.
        """
        if not self.within_guarantee(asked):
            return []
        rows = [*zip(self.resources, self.used, asked, strict=True)]
        return [one for one, _, more in rows if more] or [
            one for one, used, _ in rows if used < one.guaranteed
        ]

    @property
    def reclaims(self) -> bool:
        """Whether it takes back what is guaranteed to it, and gives back what it borrowed."""
        spec = self.quota.spec
        return spec.cohort is not None and spec.reclaim_within_cohort is Reclaim.ANY

    def of_guarantee(self, ahead: Amounts) -> "QuotaUse":
        """Return this use with the guarantees as limits; `ahead`: what counts as used besides."""
        made = QuotaUse(self.quota, self.namespaces)
        made.resources = tuple(replace(one, limit=one.guaranteed) for one in self.resources)
        made.bounds = self.bounds
        made.used = [used + more for used, more in zip(self.used, ahead, strict=True)]
        return made

    def borrowed(self, index: int) -> int:
        """Return how much of a resource is used beyond the guarantee."""
        return max(0, self.used[index] - self.resources[index].guaranteed)

    def share(self, total: Total, ahead: Amounts | None = None) -> float:
        """Return the weighted dominant share of what is used beyond the guarantees; `ahead`: what counts as used besides."""
        most = 0.0
        for index, resource in enumerate(self.resources):
            beyond = self.used[index] + (ahead[index] if ahead else 0) - resource.guaranteed
            if beyond > 0:
                # What nobody publishes now, and is used all the same, is used as a whole.
                most = max(most, beyond / max(total(resource.selection), beyond) / resource.weight)
        return most
