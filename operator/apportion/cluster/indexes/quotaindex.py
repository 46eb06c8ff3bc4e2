"""QuotaIndex: which AcceleratorQuota each namespace obeys.

In: namespaces and quotas as they come and go. Out: the quota of each namespace: of several that select it the oldest, of equally old
ones the first by name; and which quotas select namespaces that others select, too.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.api.quota import AcceleratorQuota
from apportion.dra.namespace import Namespace


@dataclass(frozen=True, slots=True)
class Assignment:
    """The quotas of all namespaces."""

    quotas: Mapping[str, AcceleratorQuota] = field(default_factory=dict)
    """By name."""
    of: Mapping[str, str] = field(default_factory=dict)
    """By namespace, the name of the quota that it obeys."""
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By namespace that several quotas select: their names, first the one that it obeys."""
    cohorts: Mapping[str, int] = field(default_factory=dict)
    """By name of a cohort, how many quotas it has."""


class QuotaIndex:
    """Quotas by namespace."""

    def __init__(self, namespaces: Mapping[str, Namespace], quotas: Mapping[str, AcceleratorQuota]) -> None:
        """Both by UID, as they were observed."""
        self.quotas = quotas
        self._namespaces = namespaces
        self._selected: dict[str, tuple[str, ...]] = {}
        """By name of each observed namespace: the quotas that select it, oldest first."""
        self._ordered: list[AcceleratorQuota] = []
        """Oldest first."""
        self._assignment: Assignment | None = Assignment()
        self.epoch = 0
        """Grows whenever a quota's spec, a namespace or its labels changed."""

    def put(self, old: Namespace | AcceleratorQuota | None, new: Namespace | AcceleratorQuota | None) -> bool:
        """Note that one was replaced; `old` None: it is new, `new` None: it is deleted. Says whether claims may get another answer."""
        if isinstance(old, AcceleratorQuota) or isinstance(new, AcceleratorQuota):
            both = isinstance(old, AcceleratorQuota) and isinstance(new, AcceleratorQuota)
            if both and old.spec == new.spec:  # type: ignore[union-attr]
                return False  # its status was written
            self._ordered = sorted(self.quotas.values(), key=_age)
            self._selected = {each.name: self._select(each) for each in self._namespaces.values()}
        elif old == new:
            return False
        elif new is not None:
            self._selected[new.name] = self._select(new)
        elif old is not None and all(each.name != old.name for each in self._namespaces.values()):
            del self._selected[old.name]
        self._assignment = None
        self.epoch += 1
        return bool(self.quotas) or isinstance(old, AcceleratorQuota)

    def is_unseen(self, namespace: str) -> bool:
        """Say whether there are quotas, and the namespace was not observed yet, so that nobody knows which one it obeys."""
        return bool(self._ordered) and namespace not in self._selected

    @property
    def assignment(self) -> Assignment:
        """The quotas of all namespaces, as they are now."""
        if self._assignment is None:
            selected = {name: found for name, found in self._selected.items() if found}
            self._assignment = Assignment(
                {quota.metadata.name: quota for quota in self._ordered},
                {name: found[0] for name, found in selected.items()},
                {name: found for name, found in selected.items() if len(found) > 1},
                Counter(quota.spec.cohort for quota in self._ordered if quota.spec.cohort),
            )
        return self._assignment

    def _select(self, namespace: Namespace) -> tuple[str, ...]:
        return tuple(
            quota.metadata.name
            for quota in self._ordered
            if quota.spec.namespace_selector.matches(namespace.labels)
        )


def _age(quota: AcceleratorQuota) -> tuple[bool, str, str]:
    created = quota.metadata.creation_timestamp
    return created is None, created.isoformat() if created is not None else "", quota.metadata.name
