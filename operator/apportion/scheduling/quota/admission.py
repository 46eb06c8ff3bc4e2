"""Admission: what the limits of quotas leave of a demand, and whether the devices chosen for it stay within them.

In: demands, decisions. Out: the demand without alternatives that are ruled out, a decision within the limits, or OverLimit. A demand
that waits for its quota costs a pass one look-up: nothing is asked of the allocator before the use or the spec of the quota changes.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from apportion import metrics
from apportion.allocator.decision import Decision
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.quota.charge import charges
from apportion.quota.least import least
from apportion.quota.narrow import narrowed
from apportion.quota.totals import Totals
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.quota.claimants import Claimants
from apportion.scheduling.quota.cohort import Cohorts
from apportion.scheduling.quota.dues import Dues
from apportion.scheduling.quota.limitanswers import MOST_KEPT, LimitAnswer, LimitAnswers, asking
from apportion.scheduling.quota.note import note
from apportion.scheduling.quota.ofclass import is_of_class
from apportion.scheduling.quota.overlimit import EXCEEDS_LIMIT, OverLimit
from apportion.scheduling.quota.parts import Parts, parts_within

TRIES = 8
"""How often a demand is asked about anew for each resource of its quota, with less of what was too much."""
RENEWED = 300.0
"""Seconds after which the Event of a demand that waits for its quota is renewed."""


class Admission:
    """Judges demands by the limits of their quotas."""

    def __init__(self, snapshot: Snapshot, recorder: Recorder, clock: Callable[[], float]) -> None:
        self._snapshot, self._recorder, self._clock = snapshot, recorder, clock
        self.charging = Charging(snapshot, clock)
        self.claimants = Claimants(snapshot, self.charging)
        self.totals = Totals(partial(is_of_class, snapshot))
        self.dues = Dues(self.charging, self.totals.of, lambda: self.shares)
        self.waiting: dict[str, WaitingDemand] = {}
        """Demands that wait, by key."""
        self.over: dict[str, tuple[Excess, float]] = {}
        """Demands that wait for their quota, by key; and when an Event said so."""
        self.others: dict[str, WaitingDemand] = {}
        """Those of them that the limits leave other devices, as they ask for these, of which none was free."""
        self._answers, self._parts = LimitAnswers(), Parts(snapshot)
        self._learnt = -1
        """How far it was read what was learnt of requests."""
        self._refused: dict[object, tuple[LimitAnswer, int, tuple[WaitingDemand, ...]]] = {}
        """Of demands of one namespace and shape, all of whose choices exceeded a limit; with the retry epoch, and one as it asks for what the limits leave."""

    def begin(self, gone: Collection[str], came: Collection[WaitingDemand]) -> Iterator[None]:
        """Start a pass; yields where others may run. `gone`: demands that went or changed (keys), `came`: that came or changed."""
        for key in gone:
            self.waiting.pop(key, None)
            self.over.pop(key, None)
            self.others.pop(key, None)
            self._parts.forget(key)
        self.waiting.update((demand.key, demand) for demand in came)
        yield from self.claimants.follow(gone, came)
        yield from self.claimants.look()
        self.dues.begin()
        yield from self.charging.steps()
        yield from self._answers.begin(self.charging.usage, self.waiting.values(), came, shares=self.shares)
        yield from self.claimants.steps(shares=self.shares)
        # Without totals nothing could be compared; that devices come and go is followed beside the passes.
        if not self.totals.counts(self.charging.usage.selections):
            yield from self.total()

    def learn(self) -> Iterator[None]:
        """Find out what those that wait take, now that some got devices: thousands may ask for the same, among other things. Yields where others may run."""
        yield from self.charging.steps()
        if self._learnt != self.charging.learnt.end:
            self._learnt = self.charging.learnt.end
            yield from self.claimants.steps(shares=self.shares)

    def total(self) -> Iterator[None]:
        """Read what the cluster has of all that quotas count, as far as it changed; yields where others may run."""
        classes = {name: found.selectors for name, found in self._snapshot.state.classes.items()}
        return self.totals.refresh(self._snapshot.slices, self.charging.usage.selections, classes)

    def use(self, namespace: str) -> QuotaUse | None:
        """Return the use of a namespace's quota as it is now; None: it has none. Raises OverLimit where nobody knows yet."""
        if not self._snapshot.quota_index.quotas:
            return None
        # The first quota may come within a pass: the next one reads all claims in steps.
        if self._snapshot.quota_index.is_unseen(namespace) or not self.charging.is_complete:
            raise OverLimit(None)
        self.charging.follow()
        return self.charging.usage.of(namespace)

    def steps(self, demand: WaitingDemand) -> Generator[None, None, None]:
        """Find out what the limits leave of a demand, which `check` looks up; yields where others may run."""
        with suppress(OverLimit):
            use = self.use(demand.claims[0].namespace)
            if use is not None:
                yield from self._answers.steps(demand, use, shares=self.shares)

    def _waits(self, demand: WaitingDemand) -> Generator[None, None, bool]:
        """Say whether a demand waits for its quota still, as its Event says, and so do all of its pods: some may lack devices only."""
        known = self.over.get(demand.key)
        if known is None or self._clock() - known[1] >= RENEWED:
            return False
        yield from self.steps(demand)
        excess = self.excess(demand)
        if excess is None or excess.resource is not known[0].resource:
            return False
        use = self.use(demand.claims[0].namespace) if len(demand.pods) > 1 else None
        return use is None or not (yield from self._parts.are_left(demand, use, shares=self.shares))

    def without_waiting(
        self, single: Sequence[WaitingDemand], alike: Sequence[Sequence[WaitingDemand]]
    ) -> Generator[None, None, tuple[list[WaitingDemand], list[Sequence[WaitingDemand]]]]:
        """Return the demands, each by itself and those refused alike, without those that wait for their quota still. Yields where others may run."""
        pace, waiting = Pace(), set[str]()
        for demand in (*single, *(demands[0] for demands in alike)):
            if pace.rests():
                yield
            if (yield from self._waits(demand)):
                waiting.add(demand.key)
        return (
            [demand for demand in single if demand.key not in waiting],
            [demands for demands in alike if demands[0].key not in waiting],
        )

    def excess(self, demand: WaitingDemand) -> Excess | None:
        """Return the limit that a demand exceeds whatever devices it gets; None: there may be devices for it."""
        try:
            use = self.use(demand.claims[0].namespace)
        except OverLimit:
            return None
        return self._answers.of(demand, use, shares=self.shares).excess if use is not None else None

    def check(self, demand: WaitingDemand, shape: object | None = None) -> WaitingDemand:
        """Return the demand without the alternatives that are beyond a limit. Raises OverLimit where none is left.

        `shape`: demands of one shape get equal answers (None: like no other).
        """
        use = self.use(demand.claims[0].namespace)
        if use is None:
            self.over.pop(demand.key, None)
            return demand
        answer = self._answers.of(demand, use, shares=self.shares)
        if answer.excess is not None:
            raise OverLimit(answer.excess)
        # As a rule none is, and to hash a shape takes longer than all else here.
        refused = self._refused.get((use.name, shape)) if self._refused else None
        if refused and refused[0].holds(use) and refused[1] == self._snapshot.retry_epoch:
            less = tuple(asking(demand, (claim.slots for claim in each.asked)) for each in refused[2])
            raise OverLimit(refused[0].excess, less)
        self.over.pop(demand.key, None)
        return self._answers.left(demand, use, shares=self.shares)

    def left_of(self, head: WaitingDemand | WaitingGroup) -> WaitingDemand | WaitingGroup:
        """Return a demand or group without the alternatives that are beyond a limit; as it is, if nothing is left, or nobody knows."""
        demands = head.demands if isinstance(head, WaitingGroup) else (head,)
        try:
            use = self.use(demands[0].claims[0].namespace)
        except OverLimit:
            return head
        if use is None:
            return head
        left = tuple(self._answers.left(each, use, shares=self.shares) for each in demands)
        if all(mine is theirs for mine, theirs in zip(left, demands, strict=True)):
            return head
        return replace(head, demands=left) if isinstance(head, WaitingGroup) else left[0]

    def asked(self, demands: Sequence[WaitingDemand]) -> tuple[Claim, ...]:
        """Return what demands ask for within the limits, as far as is known: one claim after the other."""
        found: list[Claim] = []
        for each in demands:
            left = self.others.get(each.key, each) if each.key in self.over else self.left_of(each)
            found += left.asked if isinstance(left, WaitingDemand) else each.asked
        return tuple(found)

    @property
    def shares(self) -> bool:
        """Whether some devices give shares."""
        return bool(self._snapshot.devices.shareable)

    def within(
        self,
        demand: WaitingDemand,
        decision: Decision,
        choose: Callable[[tuple[Claim, ...]], Generator[None, None, Decision | None]],
        shape: object | None = None,
    ) -> Generator[None, None, Decision]:
        """Return the decision, or one that takes less, by `choose` for claims that ask for less, where it exceeds a limit. Raises OverLimit where there is none."""
        first, tries = None, 0
        asked, device = demand.asked, self._snapshot.devices.device
        while True:
            use = self.use(demand.claims[0].namespace)  # others ran meanwhile: it may have changed
            excess = use.excess(self.amounts(use, demand.claims, decision.allocations)) if use else None
            if use is None or excess is None:
                return decision
            first, tries = first or excess, tries + 1
            smaller = None
            if tries <= TRIES * len(use.resources):
                smaller = narrowed(asked, decision.allocations, excess.resource, excess.left, device)
            other = (yield from choose(smaller)) if smaller is not None else None
            if smaller is None or other is None:
                break
            asked, decision = smaller, other
        others = (replace(demand, asked=smaller),) if smaller is not None else ()
        if shape is not None:
            if len(self._refused) >= MOST_KEPT:
                self._refused.clear()
            answer = LimitAnswer(use, use.version, shape, first)
            self._refused[use.name, shape] = answer, self._snapshot.retry_epoch, others
        raise OverLimit(first, others)

    def amounts(self, use: QuotaUse, claims: Sequence[Claim], allocations: Sequence[Allocation]) -> list[int]:
        """Return what allocations of claims take of each resource of a quota."""
        device = self._snapshot.devices.device
        pairs = zip(claims, allocations, strict=True)
        return use.amounts(one for claim, found in pairs for one in charges(claim, found, device))

    def parts(self, demand: WaitingDemand) -> Generator[None, None, Iterator[WaitingDemand]]:
        """Return demands of some of the pods that share claims, as many as the limits leave first. Yields where others may run."""
        use = self.use(demand.claims[0].namespace) if len(demand.pods) > 1 else None
        if use is None:
            return iter(())
        return (yield from parts_within(demand, use, self._snapshot, shares=self.shares))

    def _yields(self, demands: Sequence[WaitingDemand], ahead: Sequence[WaitingDemand]) -> bool:
        """Say whether demands of one namespace would borrow what is guaranteed to others of their cohort that wait for it."""
        usage = self.charging.usage
        use = usage.of(demands[0].claims[0].namespace)
        if use is None or use.quota.spec.cohort is None:
            return False
        before = [each for each in ahead if usage.of(each.claims[0].namespace) is use]
        borrowed = use.beyond_guarantee(self._dearest([*before, *demands], use))
        return bool(borrowed) and self.claimants.go_before(use, borrowed, shares=self.shares)

    def stands_back(
        self, demands: Sequence[WaitingDemand], ahead: Sequence[WaitingDemand] = (), *, evicts: bool = False
    ) -> bool:
        """Say whether nothing is to be reserved for demands: they wait for their quota, or others of their cohort go first.

        `ahead`: demands for which something is reserved. `evicts`: pods would be evicted for them, who may have the devices that the limits leave them.
        """
        over = any(each.key in self.over and not (evicts and each.key in self.others) for each in demands)
        return bool(demands) and (over or self._yields(demands, ahead))

    def _dearest(self, demands: Sequence[WaitingDemand], use: QuotaUse) -> Sequence[int]:
        claims = [claim for demand in demands for claim in demand.claims]
        return self.charging.dearest(claims, use, shares=self.shares)

    def cohorts(self) -> Cohorts:
        """Return the cohorts of quotas, to be filled with what waits in a pass."""
        return Cohorts(self.charging, self.totals.of, shares=self.shares)

    def report(self, demands: Sequence[WaitingDemand], found: OverLimit) -> None:
        """Note that demands wait for their quota, and say so in Events."""
        metrics.DECISIONS.labels("quota").inc(len(demands))
        if found.excess is None:
            return
        for demand in demands:
            self.over[demand.key] = found.excess, self._clock()
            self.others.pop(demand.key, None)
            objects = [About(CLAIMS, claim.name, claim.uid, claim.namespace) for claim in demand.claims]
            objects += [About(PODS, pod.name, pod.uid, pod.namespace) for pod in demand.pods]
            for about in objects:
                self._recorder.warning(about, EXCEEDS_LIMIT, str(found.excess))
        self.others.update((each.key, each) for each in found.others)

    def note(self, demand: WaitingDemand) -> str:
        """Return what the quota says about a demand that finds no devices, as the end of a sentence; empty: nothing."""
        try:
            use = self.use(demand.claims[0].namespace)
        except OverLimit:
            return ""
        asked = least(demand.asked, use, shares=self.shares) if use is not None else []
        if use is None or not any(asked):
            return ""
        evicts = bool(demand.pods) and all(pod.preempts for pod in demand.pods)
        return note(use, asked, self.charging.usage, evicts=evicts)

    def pending(self) -> dict[str, list[Excess | None]]:
        """Return the demands that wait, by their quota: for each the limit for which it waits, None for devices."""
        found: dict[str, list[Excess | None]] = {}
        for key, demand in self.waiting.items():
            use = self.charging.usage.of(demand.claims[0].namespace)
            if use is not None:
                over = self.over.get(key)
                found.setdefault(use.name, []).append(over[0] if over is not None else None)
        return found
