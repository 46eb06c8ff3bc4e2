"""Guarantees: what quotas take back for a demand, and how much of their use may go at most, for any demand.

In: the use of quotas, claim by claim; demands; what goes already. Out: a `ReclaimRule` for one search: the rule of who gives back what he has
borrowed, and an allowance that keeps what is guaranteed.

A quota with `reclaimWithinCohort: Any` takes back for a demand that stays within its guarantee, and gives back to others of its cohort.
What is within its guarantee goes for nobody else, whatever the priority, and for its own pods only if that makes the guaranteed part
larger, or of pods of higher priority (ADR 28). What ends already counts as gone, what is under way as used.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.allocator.decision import Decision
from apportion.allocator.finished import finished
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.quota.guaranteed import GuaranteedPart
from apportion.quota.least import least, possible
from apportion.quota.reclaim import reclaimable
from apportion.quota.use import Amounts, Excess, QuotaUse
from apportion.scheduling.demands.consumers import is_freed_by_its_pods
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.preemption.eligibility import Holder
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.overlimit import OverLimit

_PERMANENT = 2**31
"""Priority of claims that keep their devices without a pod (the API's priorities are below): nothing evicts them."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A claim that is charged to a quota with guarantees that are kept."""

    use: QuotaUse
    priority: int
    """The highest of the pods that use it."""
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class ReclaimRule:
    """Who gives back for one demand, and how much of each quota may go for it."""

    within: WaitingDemand | None = None
    """The demand without alternatives beyond its guarantee; None: nothing is taken back for it."""
    quota: str = ""
    """Name of the quota that takes back."""
    allowance: Mapping[str, int] = field(default_factory=dict)
    """How much may go of what the guarantees are counted in, see `NodeVictims.allowance`."""
    free: QuotaUse | None = None
    """The quota whose guaranteed pods may go, because the demand takes their place in the guarantee."""
    _rows: Mapping[str, _Row] = field(default_factory=dict)
    """By UID of the claim."""
    parts: Mapping[str, GuaranteedPart] = field(default_factory=dict)
    """By name of the quota."""
    _borrowers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By name of the quota: the resources of which it has borrowed what the demand can use."""

    def may_go(self, holder: Holder, demand: WaitingDemand) -> bool:
        """Say whether these pods have something of what their quota has borrowed and the demand's takes back; `counted` says how much."""
        if self.within is None or demand.key != self.within.key:
            return False
        return any(
            row.amounts[index]
            for row in self._of(holder.claims)
            for index in self._borrowers.get(row.use.name, ())
        )

    def counted(self, claims: Iterable[Claim]) -> dict[str, int]:
        """Return what goes of the allowance with these claims."""
        found: Counter[str] = Counter()
        for row in self._of(claims):
            if row.use is not self.free:
                found.update(self.parts[row.use.name].counted(row.priority, row.amounts))
        return dict(found)

    def borrower(self, claims: Iterable[Claim]) -> str:
        """Return the name of the quota to which claims are charged; empty: its guarantees are not kept."""
        return next((row.use.name for row in self._of(claims)), "")

    def _of(self, claims: Iterable[Claim]) -> Iterable[_Row]:
        return (self._rows[claim.uid] for claim in claims if claim.uid in self._rows)


@dataclass(frozen=True, slots=True)
class _Charged:
    """What is charged to the quotas whose guarantees are kept."""

    rows: Mapping[str, _Row]
    """By UID of the claim."""
    parts: Mapping[str, GuaranteedPart]
    """By name of the quota."""
    allowance: Mapping[str, int]


class Guarantees:
    """Reads guarantees, demand by demand."""

    def __init__(self, snapshot: Snapshot, quotas: Admission) -> None:
        self._snapshot = snapshot
        self._quotas = quotas
        self._read: tuple[object, _Charged] | None = None
        """What is charged, and as of when: many demands are searched for in a row."""

    def are_kept(self) -> bool:
        """Say whether some quota takes back what is guaranteed to it."""
        return any(use.reclaims for use in self._quotas.charging.usage)

    def gives_back(self, namespace: str) -> bool:
        """Say whether a namespace's pods may be evicted for what is guaranteed to others."""
        use = self._quotas.charging.usage.of(namespace)
        return use is not None and use.reclaims

    def within(self, demand: WaitingDemand, ahead: Sequence[WaitingDemand] = ()) -> WaitingDemand | None:
        """Return the demand without alternatives beyond its guarantee; None: nothing is left, or nothing is taken back for it.

        `ahead`: demands that are about to get devices.
        """
        use = self._use(demand)
        if use is None or not use.reclaims:
            return None
        of_guarantee = use.of_guarantee(self._ahead(use, ahead))
        left = finished(possible(demand.asked, of_guarantee, shares=self._quotas.shares))
        if isinstance(left, Excess):
            return None
        found = demand if left is demand.asked else replace(demand, asked=left)
        asked = self._asked(found, use)
        if of_guarantee.excess(asked) is not None:
            return None
        rows = zip(of_guarantee.resources, of_guarantee.used, asked, strict=True)
        some = any(used < one.guaranteed and (more or not any(asked)) for one, used, more in rows)
        return found if some else None

    def covered(self, demands: Sequence[WaitingDemand]) -> Generator[None, None, frozenset[str]]:
        """Return the demands (keys) for which something may be taken back; equal requests of a namespace are looked at once. Yields where others may run."""
        if not self.are_kept():
            return frozenset()
        found: set[str] = set()
        known: dict[tuple[object, ...], bool] = {}
        pace = Pace()
        for demand in demands:
            if pace.rests():
                yield
            alike = demand.claims[0].namespace, *(id(claim.slots) for claim in demand.asked)
            if alike not in known:
                known[alike] = self.within(demand) is not None
            if known[alike]:
                found.add(demand.key)
        return frozenset(found)

    def reclaim_rule(
        self, demand: WaitingDemand, ahead: Sequence[WaitingDemand], going: Collection[str]
    ) -> ReclaimRule:
        """Return the rule for a demand; `going`: pods (UIDs) that are being evicted for the demands `ahead`."""
        if not self.are_kept():
            return ReclaimRule()
        use, within = self._use(demand), self.within(demand, ahead)
        charged = self._charged(going)
        borrowers: dict[str, tuple[int, ...]] = {}
        free = None
        if use is not None and use.reclaims:
            asked = self._asked(within or demand, use)
            # What is not known before devices are chosen is asked again then.
            if charged.parts[use.name].rises(demand.priority, asked if any(asked) else [1] * len(asked)):
                free = use
            if within is not None:
                found = reclaimable(use, asked, self._quotas.charging.usage)
                borrowers = {each.use.name: each.resources for each in found}
        quota = use.name if use is not None else ""
        return ReclaimRule(within, quota, charged.allowance, free, charged.rows, charged.parts, borrowers)

    def stays_within(self, demand: WaitingDemand, decision: Decision, ahead: Sequence[WaitingDemand]) -> bool:
        """Say whether a decision stays within the guarantee, now that its devices are known."""
        use = self._use(demand)
        if use is None:
            return False
        amounts = self._quotas.amounts(use, demand.claims, decision.allocations)
        return any(amounts) and use.of_guarantee(self._ahead(use, ahead)).excess(amounts) is None

    def rises(self, demand: WaitingDemand, decision: Decision, reclaim: ReclaimRule) -> bool:
        """Say whether a decision makes the guaranteed part of its quota larger, or of pods of higher priority."""
        if reclaim.free is None:
            return False
        amounts = self._quotas.amounts(reclaim.free, demand.claims, decision.allocations)
        return reclaim.parts[reclaim.free.name].rises(demand.priority, amounts)

    def _asked(self, demand: WaitingDemand, use: QuotaUse) -> Sequence[int]:
        """Return what a demand takes at least, or else what the last one with the same requests took."""
        shares = self._quotas.shares
        asked = least(demand.asked, use, shares=shares)
        return asked if any(asked) else self._quotas.charging.expected(demand.claims, use, shares=shares)

    def _use(self, demand: WaitingDemand) -> QuotaUse | None:
        try:
            return self._quotas.use(demand.claims[0].namespace)
        except OverLimit:
            return None

    def _ahead(self, use: QuotaUse, demands: Iterable[WaitingDemand]) -> Sequence[int]:
        claims = [claim for each in demands if self._use(each) is use for claim in each.claims]
        return self._quotas.charging.expected(claims, use, shares=self._quotas.shares)

    def _charged(self, going: Collection[str]) -> _Charged:
        usage, changes = self._quotas.charging.usage, self._snapshot.changes
        # The log of claims has those whose pods changed, too.
        read = usage.version, changes.claims.end, frozenset(going)
        if self._read is not None and self._read[0] == read:
            return self._read[1]
        rows = self._rows(going)
        kept = [use for use in usage if use.reclaims]
        by_quota: dict[str, list[tuple[int, Amounts]]] = {use.name: [] for use in kept}
        for row in rows.values():
            by_quota[row.use.name].append((row.priority, row.amounts))
        parts = {use.name: GuaranteedPart(use, by_quota[use.name]) for use in kept}
        allowance = {key: most for part in parts.values() for key, most in part.allowance().items()}
        charged = _Charged(rows, parts, allowance)
        self._read = read, charged
        return charged

    def _rows(self, going: Collection[str]) -> dict[str, _Row]:
        """Return the claims of quotas whose guarantees are kept, without those whose pods all end, by UID."""
        found: dict[str, _Row] = {}
        for key, use, charges in self._quotas.charging.usage.charged():
            claim = self._snapshot.claims.get(key) if use is not None and use.reclaims else None
            if claim is not None and use is not None:
                priority = self._priority(claim, going)
                if priority is not None:
                    found[key] = _Row(use, priority, use.amounts(charges))
        return found

    def _priority(self, claim: Claim, going: Collection[str]) -> int | None:
        """Return the priority with which a claim has its devices; None: it loses them soon."""
        if not is_freed_by_its_pods(claim):
            return _PERMANENT
        # Thousands of pods may name a claim that others have; 256 at most reserve it.
        users = self._snapshot.pods_of([each.uid for each in claim.reserved_for])
        return max(
            [
                pod.priority
                for pod in (users if claim.reserved_for else self._snapshot.users(claim))
                if not pod.finished and not pod.deleting and pod.uid not in going
            ],
            default=None,
        )
