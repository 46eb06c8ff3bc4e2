"""Usage: what every namespace has, and the use of every quota, followed charge by charge.

In: charges by claim, the quota of each namespace. Out: the use of a namespace's quota. A change costs what it changes: a claim's
devices, or, where a quota changes, the different kinds of devices that its namespaces have.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from apportion.api.quota import AcceleratorQuota
from apportion.quota.charge import Charge
from apportion.quota.resource import Selection
from apportion.quota.use import QuotaUse


class Usage:
    """Charges by claim, by namespace and by quota."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, tuple[Charge, ...]]] = {}
        self._namespaces: dict[str, Counter[Charge]] = {}
        self._quotas: dict[str, QuotaUse] = {}
        """By name of the quota."""
        self._of: dict[str, QuotaUse] = {}
        """By namespace."""
        self.version = 0
        """Grows whenever the use of a quota changes."""
        self.selections: frozenset[Selection] = frozenset()
        """What quotas count."""

    def __iter__(self) -> Iterator[QuotaUse]:
        return iter(self._quotas.values())

    def of(self, namespace: str) -> QuotaUse | None:
        """Return the use of a namespace's quota; None: it has none."""
        return self._of.get(namespace)

    def charged(self) -> Iterator[tuple[str, QuotaUse | None, tuple[Charge, ...]]]:
        """Yield what is charged, by key, with the quota of its namespace."""
        for key, (namespace, charges) in self._claims.items():
            yield key, self._of.get(namespace), charges

    def put(self, key: str, namespace: str, charges: tuple[Charge, ...]) -> None:
        """Charge a namespace for what a key (the UID of a claim) has now, instead of what it had."""
        before = self._claims.get(key)
        if before is not None:
            if before == (namespace, charges):
                return
            self._count(*before, sign=-1)
            del self._claims[key]
        if charges:
            self._claims[key] = namespace, charges
            self._count(namespace, charges, sign=1)

    def assign(self, quotas: Mapping[str, AcceleratorQuota], namespaces: Mapping[str, str]) -> None:
        """Replace the quotas (by name), and the names of the quotas that namespaces obey."""
        members: dict[str, set[str]] = {name: set() for name in quotas}
        for namespace, name in namespaces.items():
            members[name].add(namespace)
        former, self._quotas, self._of = self._quotas, {}, {}
        for name, quota in quotas.items():
            own, known = frozenset(members[name]), former.get(name)
            if known is None or known.namespaces != own or known.quota.spec != quota.spec:
                known = self._counted(quota, own)
            known.quota = quota
            self._quotas[name] = known
            self._of.update(dict.fromkeys(own, known))
        uses = self._quotas.values()
        self.selections = frozenset(resource.selection for use in uses for resource in use.resources)
        self.version += 1

    def _counted(self, quota: AcceleratorQuota, namespaces: frozenset[str]) -> QuotaUse:
        made = QuotaUse(quota, namespaces)
        for namespace in namespaces:
            for charge, count in self._namespaces.get(namespace, {}).items():
                made.add((charge,), count)
        return made

    def _count(self, namespace: str, charges: tuple[Charge, ...], *, sign: int) -> None:
        held = self._namespaces.setdefault(namespace, Counter())
        for charge in charges:
            held[charge] += sign
            if not held[charge]:
                del held[charge]
        if not held:
            del self._namespaces[namespace]
        use = self._of.get(namespace)
        if use is not None:
            use.add(charges, sign)
            self.version += 1
