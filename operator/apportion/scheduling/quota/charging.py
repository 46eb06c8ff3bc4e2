"""Charging: the use of quotas, kept in step with the snapshot claim by claim.

In: the changes of claims, those that we only assume included. Out: the use of each quota, no matter who allocated. What a pod uses
of an allocation that its claim has lost stays charged until the pod has ended; where the pod was deleted by force, as long as an agent
reports the claim as prepared, and until it has had the time to. A device is charged as it is published when its allocation is first
seen, later if no slice has it then. Without quotas nothing is followed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.cutoffclaims import PATIENCE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim, RequestSlot
from apportion.quota.charge import Charge, charges
from apportion.quota.usage import Usage
from apportion.quota.use import QuotaUse
from apportion.scheduling.pace import Changed

MOST_LEARNT = 4096
"""Requests of which it is remembered what they got last."""
_Learnt: TypeAlias = tuple[tuple[RequestSlot, ...], tuple[Charge, ...]]
"""Requests, and what they got."""


class _Expected(NamedTuple):
    """What requests take of a quota's resources."""

    slots: tuple[RequestSlot, ...]
    """The requests, which are kept, so that their identity is not that of others."""
    known: _Learnt | None
    """What was learnt of them then."""
    amounts: Sequence[int]
    dearest: Sequence[int]


class Charging:
    """Follows claims."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._snapshot, self._clock = snapshot, clock
        self._reset()

    def _reset(self) -> None:
        self.usage = Usage()
        self._cursor = -1
        """How far the changes of claims were read."""
        self.is_complete = False
        """Whether all claims were read since there are quotas."""
        self._changed = Changed[tuple[str, str]]()
        """Claims, by namespace and name."""
        self._epoch = -1
        """Epoch of the quota index in which quotas were assigned."""
        self._slices = -1
        """Epoch of the slices in which devices that no slice had were looked for last."""
        self._unpublished: set[tuple[str, str]] = set()
        """Claims (namespace and name) with devices that no slice has had yet."""
        self._known: dict[tuple[str, str], dict[str, Allocation]] = {}
        """What is charged, by the claim's namespace and name, then by key."""
        self._unreported: dict[str, tuple[float, tuple[str, str]]] = {}
        """Claims (UIDs) whose pods were deleted by force, in the order in which time is up for a report of them; with namespace and name."""
        self._learnt: dict[int, _Learnt] = {}
        """What requests got last, by their identity; they are kept, so that this is not used for others."""
        self.learnt = ChangeLog[int]()
        """Requests, by their identity, that got something else than the last ones, or of which that is forgotten."""
        self._amounts: dict[tuple[int, QuotaUse, bool], _Expected] = {}
        """What requests take of a quota's resources, as far as somebody asked since that was learnt."""

    def steps(self) -> Iterator[None]:
        """Take in what changed; yields after each few claims."""
        snapshot = self._snapshot
        if not snapshot.quota_index.quotas:
            if self._cursor != -1:
                self._reset()
            return
        if self._epoch != snapshot.quota_index.epoch:
            self._epoch = snapshot.quota_index.epoch
            assignment = snapshot.quota_index.assignment
            self.usage.assign(assignment.quotas, assignment.of)
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        if changed is None:
            ended = (claim for claim, _ in snapshot.ended)
            claims = (*snapshot.claims.values(), *ended, *snapshot.cut_off)
            names = {(claim.namespace, claim.name) for claim in claims} | self._known.keys()
        else:
            names = {*changed}
        if self._slices != snapshot.slice_epoch:
            self._slices = snapshot.slice_epoch
            names |= self._unpublished
        while self._is_due():
            names.add(self._unreported.pop(next(iter(self._unreported)))[1])
            snapshot.retry_epoch += 1
        yield from self._changed.steps(names, self._look)
        if not self.is_complete:
            self.is_complete = True
            snapshot.retry_epoch += 1  # for those that were refused because nobody knew

    def follow(self) -> None:
        """Take in what changed, at once; nothing did as a rule, since it is asked at every turn."""
        snapshot = self._snapshot
        read = self._cursor, self._epoch, self._slices
        seen = snapshot.changes.claims.end, snapshot.quota_index.epoch, snapshot.slice_epoch
        if self._changed or read != seen or self._is_due():
            for _ in self.steps():
                pass

    def promise(self, key: str, namespace: str, charged: Sequence[Charge]) -> None:
        """Charge a namespace for what its claims are about to have, under the key of their demand, until `fulfil`."""
        if self._snapshot.quota_index.quotas:
            self.usage.put(_promised(key), namespace, tuple(charged))

    def fulfil(self, key: str) -> None:
        """Charge what was promised no longer: the claims have it now, or will not."""
        self.usage.put(_promised(key), "", ())

    def expected(self, claims: Sequence[Claim], use: QuotaUse, *, shares: bool) -> Sequence[int]:
        """Return what claims take of a quota's resources: as the last ones with the same requests, else at least.

        `shares`: some devices give shares.
        """
        return _sum([self._expected(claim, use, shares=shares).amounts for claim in claims], use)

    def dearest(self, claims: Sequence[Claim], use: QuotaUse, *, shares: bool) -> Sequence[int]:
        """Return what claims take: as the last ones with the same requests, else each alternative that takes most, and something where nobody knows how much.

        By it nobody gets a turn before others for alternatives that nobody offers, or for what counts only when devices are chosen.
        """
        return _sum([self._expected(claim, use, shares=shares).dearest for claim in claims], use)

    def _expected(self, claim: Claim, use: QuotaUse, *, shares: bool) -> _Expected:
        key = id(claim.slots), use, shares
        known, found = self._learnt.get(id(claim.slots)), self._amounts.get(key)
        if found is None or found.known is not known or found.slots is not claim.slots:
            if known is not None:
                own = use.amounts(known[1])
                found = _Expected(claim.slots, known, own, own)
            else:
                bounds = use.bounds.of(claim, shares=shares)
                found = _Expected(claim.slots, None, bounds.least, bounds.dearest)
            # As many as wait, or all would be found out anew in each pass.
            if len(self._amounts) >= max(MOST_LEARNT, 2 * len(self._snapshot.claim_index.unallocated)):
                self._amounts.clear()
            self._amounts[key] = found
        return found

    def _look(self, name: tuple[str, str]) -> None:
        """Charge the claims of this name: the one that there is, and one of that name that was deleted."""
        snapshot = self._snapshot
        known = self._known.pop(name, {})
        unpublished = name in self._unpublished
        self._unpublished.discard(name)
        current = snapshot.claim_index.named(*name)
        uids = {key.rpartition(":")[2] for key in known} | {
            *snapshot.ended.named(*name),
            *snapshot.cut_off.named(*name),
        }
        if current is not None:
            uids.add(current)
        now: dict[str, Allocation] = {}
        for uid in uids:
            claim, ended = snapshot.claims.get(uid), snapshot.ended.get(uid)
            has = snapshot.allocation(claim) if claim is not None else None
            cut_off = snapshot.cut_off.get(uid) if ended is None else None
            if cut_off is not None and not self._may_run(cut_off, has, known):
                cut_off = None
            for key, own, allocation in (
                (uid, claim, has),
                (f"ended:{uid}", ended, ended.allocation if ended is not None else None),
                (f"cut off:{uid}", cut_off, cut_off.allocation if cut_off is not None else None),
            ):
                if own is not None and allocation is not None:
                    now[key] = allocation
                    if unpublished or known.get(key) != allocation:
                        self._charge(key, own, allocation)
                elif key in known:
                    self.usage.put(key, name[0], ())
        if now:
            self._known[name] = now

    def _is_due(self) -> bool:
        """Say whether the time is up in which an agent reports a claim."""
        return bool(self._unreported) and next(iter(self._unreported.values()))[0] <= self._clock()

    def _may_run(self, lost: Claim, has: Allocation | None, known: Mapping[str, Allocation]) -> bool:
        """Say whether containers of a pod that was deleted by force may run with what a claim has lost, beside what it has now; `known`: what was charged for its name."""
        uid, allocation = lost.uid, lost.allocation
        if allocation is None or (has is not None and has.keeps(allocation)):
            return False
        charged = filter(None, (known.get(uid), known.get(f"ended:{uid}")))
        if any(map(allocation.keeps, charged)):
            self._unreported.setdefault(uid, (self._clock() + PATIENCE, (lost.namespace, lost.name)))
        # What it has now is prepared by right; a share of a device that it has anew may be the lost one.
        kept = {each.device for each in has.results if each.share_id is None} if has is not None else set()
        left = {each.device for each in allocation.results} - kept
        return uid in self._unreported or not left.isdisjoint(self._snapshot.prepared.devices(uid))

    def _charge(self, key: str, claim: Claim, allocation: Allocation) -> None:
        device = self._snapshot.devices.device
        found = charges(claim, allocation, device)
        self.usage.put(key, claim.namespace, found)
        if any(device(result.device) is None for result in allocation.results):
            self._unpublished.add((claim.namespace, claim.name))
            return
        known = self._learnt.get(id(claim.slots))
        if known is not None and known[1] == found:
            return
        if known is None and len(self._learnt) >= MOST_LEARNT:
            self._forget(next(iter(self._learnt)))
        self._learnt[id(claim.slots)] = claim.slots, found
        self.learnt.add(id(claim.slots), most=MOST_LEARNT)

    def _forget(self, requests: int) -> None:
        del self._learnt[requests]
        self.learnt.add(requests, most=MOST_LEARNT)


def _sum(rows: Sequence[Sequence[int]], use: QuotaUse) -> Sequence[int]:
    if len(rows) == 1:
        return rows[0]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * len(use.resources)


def _promised(key: str) -> str:
    """Return the key under which a promise is charged: no claim has it."""
    return f"promised:{key}"
