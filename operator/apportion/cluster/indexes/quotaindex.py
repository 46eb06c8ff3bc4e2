"""QuotaIndex: which AcceleratorQuota each namespace obeys.

In: namespaces and quotas as they come and go. Out: the quota of each namespace: of several that select it the oldest, of equally old
ones the first by name; and which quotas select namespaces that others select, too.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from apportion.api.quota import AcceleratorQuota
from apportion.dra.namespace import Namespace

_Age: TypeAlias = tuple[bool, str, str]
"""Whether nobody knows when a quota was made, when it was, its name."""
_Ranked: TypeAlias = tuple[_Age, str]
"""With its UID: no other quota has it."""


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
    """Quotas by namespace. A quota that changes is compared with all namespaces, and a namespace with all quotas."""

    def __init__(self, quotas: Mapping[str, AcceleratorQuota]) -> None:
        """`quotas`: by UID, as they were observed."""
        self.quotas = quotas
        self._namespaces: dict[str, Namespace] = {}
        """By name: the latest one that was observed."""
        self._ordered: list[_Ranked] = []
        """Oldest first."""
        self._followed: dict[str, tuple[_Ranked, AcceleratorQuota]] = {}
        """By UID: a quota as it is ranked."""
        self._selected: dict[str, list[_Ranked]] = {}
        """By name of each observed namespace: the quotas that select it, oldest first."""
        self._assignment: Assignment | None = Assignment()
        self.epoch = 0
        """Grows whenever a quota's spec, a namespace or its labels changed."""

    def put(self, old: Namespace | AcceleratorQuota | None, new: Namespace | AcceleratorQuota | None) -> bool:
        """Note that one was replaced; `old` None: it is new, `new` None: it is deleted. Says whether claims may get another answer."""
        if isinstance(old, AcceleratorQuota) or isinstance(new, AcceleratorQuota):
            if _counts(old) == _counts(new):
                return False  # its status was written
            if isinstance(old, AcceleratorQuota):
                self._remove(old)
            if isinstance(new, AcceleratorQuota):
                self._add(new)
        elif old == new:
            return False
        elif new is not None:
            quotas = (self._followed[uid] for _, uid in self._ordered)
            self._namespaces[new.name] = new
            self._selected[new.name] = [row for row, quota in quotas if _selects(quota, new)]
        elif old is not None and self._namespaces[old.name].uid == old.uid:
            del self._namespaces[old.name], self._selected[old.name]
        self._assignment = None
        self.epoch += 1
        return bool(self.quotas) or isinstance(old, AcceleratorQuota)

    def _add(self, quota: AcceleratorQuota) -> None:
        row = _age(quota), quota.metadata.uid
        self._followed[quota.metadata.uid] = row, quota
        insort(self._ordered, row)
        for namespace in self._namespaces.values():
            if _selects(quota, namespace):
                insort(self._selected[namespace.name], row)

    def _remove(self, quota: AcceleratorQuota) -> None:
        row, former = self._followed.pop(quota.metadata.uid)
        del self._ordered[bisect_left(self._ordered, row)]
        for namespace in self._namespaces.values():
            if _selects(former, namespace):
                self._selected[namespace.name].remove(row)

    def is_unseen(self, namespace: str) -> bool:
        """Say whether there are quotas, and the namespace was not observed yet, so that nobody knows which one it obeys."""
        return bool(self._ordered) and namespace not in self._selected

    @property
    def assignment(self) -> Assignment:
        """The quotas of all namespaces, as they are now."""
        if self._assignment is None:
            rows = self._selected.items()
            selected = {name: tuple(own for (*_, own), _ in found) for name, found in rows if found}
            quotas = [self._followed[uid][1] for _, uid in self._ordered]
            self._assignment = Assignment(
                {quota.metadata.name: quota for quota in quotas},
                {name: found[0] for name, found in selected.items()},
                {name: found for name, found in selected.items() if len(found) > 1},
                Counter(quota.spec.cohort for quota in quotas if quota.spec.cohort),
            )
        return self._assignment


def _counts(quota: Namespace | AcceleratorQuota | None) -> object:
    """Return all of a quota that says who obeys it, and what."""
    return (_age(quota), quota.spec) if isinstance(quota, AcceleratorQuota) else None


def _selects(quota: AcceleratorQuota, namespace: Namespace) -> bool:
    return quota.spec.namespace_selector.matches(namespace.labels)


def _age(quota: AcceleratorQuota) -> _Age:
    created = quota.metadata.creation_timestamp
    return created is None, created.isoformat() if created is not None else "", quota.metadata.name
