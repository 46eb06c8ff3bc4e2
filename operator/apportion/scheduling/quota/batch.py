"""BatchAdmission: demands that are decided together, the members of a group or the last of the queue, by the limits of their quota.

In: demands, decisions for all of them. Out: whether together they stay within the limits, or which of them do.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from apportion.allocator.decision import Decision
from apportion.quota.charge import Charge, Published, charges
from apportion.quota.least import least
from apportion.quota.narrow import narrowed
from apportion.quota.use import Excess, QuotaUse
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.overlimit import OverLimit


@dataclass(frozen=True, slots=True)
class GroupWithin:
    """What limits leave of the decisions for a group."""

    decisions: tuple[Decision | None, ...]
    """Without those that exceed a limit."""
    excess: Excess | None = None
    """The first limit that one exceeds; None: all stay within."""
    less: tuple[WaitingDemand, ...] = ()
    """The demands, of which those that exceed a limit ask for less of it; empty: none of them can."""


class BatchAdmission:
    """Judges several demands at once."""

    def __init__(self, admission: Admission, published: Published) -> None:
        """`published`: returns a device as its driver publishes it."""
        self._admission = admission
        self._published = published
        self._charges: dict[int, tuple[Decision, Sequence[Charge]]] = {}
        """What decisions take, by their identity, as far as it was read."""

    # Groups. ----------------------------------------------------------------------------------------------------

    def check_group(
        self, demands: Sequence[tuple[WaitingDemand, int]], enough: int
    ) -> Generator[None, None, None]:
        """Raise OverLimit if a limit leaves fewer than `enough` pods of a group; `demands`: with the number of pods of each. Yields where others may run."""
        use = self._admission.use(demands[0][0].claims[0].namespace) if demands else None
        if use is not None:
            yield from self._check(demands, enough, use)
        for each, _ in demands:
            self._admission.over.pop(each.key, None)

    def _check(
        self, demands: Sequence[tuple[WaitingDemand, int]], enough: int, use: QuotaUse
    ) -> Generator[None, None, None]:
        rows, pace = list[tuple[Sequence[int], int]](), Pace()
        for each, pods in demands:
            if pace.rests(len(each.asked)):
                yield
            if pods:
                rows.append((least(each.asked, use, shares=self._admission.shares), pods))
        common = math.lcm(*(pods for _, pods in rows))
        total = []
        for index in range(len(use.resources)):
            missing, amount = enough, 0
            # By what each pod takes; amounts that the API server stores may be beyond what a float holds.
            shares = sorted((row[index] * (common // pods), row[index], pods) for row, pods in rows)
            for _, taken, pods in shares:
                amount += taken if pods <= missing else taken * missing // pods
                missing -= min(pods, missing)
            total.append(amount)
        excess = use.excess(total)
        if excess is not None:
            raise OverLimit(excess)

    def read(
        self, demands: Sequence[WaitingDemand], decisions: Sequence[Decision | None]
    ) -> Generator[None, None, None]:
        """Find out what decisions take, so that `group_within` and `promised` take a moment; yields where others may run."""
        self._charges, pace = {}, Pace()
        if not demands or self._admission.use(demands[0].claims[0].namespace) is None:
            return
        for demand, decision in zip(demands, decisions, strict=True):
            if pace.rests(len(demand.claims)):
                yield
            if decision is not None:
                self._charges[id(decision)] = decision, self._charged(demand, decision)

    def _charged(self, demand: WaitingDemand, decision: Decision) -> Sequence[Charge]:
        known = self._charges.get(id(decision))
        if known is not None:
            return known[1]
        pairs = zip(demand.claims, decision.allocations, strict=True)
        return tuple(one for claim, found in pairs for one in charges(claim, found, self._published))

    def group_within(
        self,
        demands: Sequence[WaitingDemand],
        decisions: Sequence[Decision | None],
        ahead: Iterable[tuple[WaitingDemand, Decision]] = (),
    ) -> GroupWithin:
        """Return the decisions for a group without those that exceed a limit, and what to ask for in their place; `ahead`: what others are about to get."""
        use = self._admission.use(demands[0].claims[0].namespace) if demands else None
        if use is None:
            return GroupWithin(tuple(decisions))
        batch, first, narrower = _Batch(use, self._published), None, False
        for other, promised in ahead:
            if self._use(other) is use:
                batch.add(self._charged(other, promised))
        kept, less = list[Decision | None](), list[WaitingDemand]()
        for demand, decision in zip(demands, decisions, strict=True):
            excess = batch.add(self._charged(demand, decision)) if decision is not None else None
            kept.append(decision if excess is None else None)
            smaller = batch.less(demand, decision, excess) if decision is not None and excess else None
            less.append(smaller or demand)
            first, narrower = first or excess, narrower or smaller is not None
        return GroupWithin(tuple(kept), first, tuple(less) if narrower else ())

    @contextmanager
    def promised(
        self, demands: Sequence[WaitingDemand], decisions: Sequence[Decision | None]
    ) -> Iterator[Callable[[str], None]]:
        """Charge within the block what a group is given member by member: others are decided in between. Gives what ends that for one (by key) whose turn it is."""
        charging = self._admission.charging
        rows = [
            (demand, decision)
            for demand, decision in zip(demands, decisions, strict=True)
            if decision is not None
        ]
        for demand, decision in rows:
            charging.promise(demand.key, demand.claims[0].namespace, self._charged(demand, decision))
        try:
            yield charging.fulfil
        finally:
            for demand, _ in rows:
                charging.fulfil(demand.key)

    # The last of the queue. ---------------------------------------------------------------------------------------

    def beyond(self, demands: Sequence[WaitingDemand], rests: Callable[[str], bool]) -> frozenset[str]:
        """Return the demands (keys) for which the limits leave nothing, if those before them get what they ask for at least.

        `rests` says which are not decided now, by key.
        """
        ahead: dict[int, list[int]] = {}
        found: set[str] = set()
        for demand in demands:
            use = self._use(demand)
            if use is None or rests(demand.key):
                continue
            before = ahead.setdefault(id(use), [0] * len(use.resources))
            own = least(demand.asked, use, shares=self._admission.shares)
            asked = [taken + more if more else 0 for taken, more in zip(before, own, strict=True)]
            if use.excess(asked) is not None:
                found.add(demand.key)
            else:
                ahead[id(use)] = [taken + more for taken, more in zip(before, own, strict=True)]
        return frozenset(found)

    def allows(self, demands: Sequence[WaitingDemand], decisions: Mapping[str, Decision]) -> bool:
        """Say whether these decisions (by key of the demand) stay within all limits together."""
        batches: dict[int, _Batch] = {}
        for demand in demands:
            use, decision = self._use(demand), decisions.get(demand.key)
            if use is None or decision is None:
                continue
            own = batches.setdefault(id(use), _Batch(use, self._published))
            if own.add(self._charged(demand, decision)) is not None:
                return False
        return True

    def _use(self, demand: WaitingDemand) -> QuotaUse | None:
        try:
            return self._admission.use(demand.claims[0].namespace)
        except OverLimit:
            return None


class _Batch:
    """What decisions for one quota take, one after the other."""

    def __init__(self, use: QuotaUse, published: Published) -> None:
        self._use = use
        self._published = published
        self._taken = [0] * len(use.resources)

    def add(self, charged: Sequence[Charge]) -> Excess | None:
        """Count what a decision takes; or return the limit that it exceeds beside the others, and do not count it."""
        own = self._use.amounts(charged)
        asked = [taken + more for taken, more in zip(self._taken, own, strict=True)]
        excess = self._use.excess([each if more else 0 for each, more in zip(asked, own, strict=True)])
        if excess is None:
            self._taken = asked
        return excess

    def less(self, demand: WaitingDemand, decision: Decision, excess: Excess) -> WaitingDemand | None:
        """Return a demand that asks for no more than is left, beside the others, of what its decision takes too much of; None: there is none."""
        taken = self._taken[self._use.resources.index(excess.resource)]
        left = excess.left - taken
        asked = narrowed(demand.asked, decision.allocations, excess.resource, left, self._published)
        return replace(demand, asked=asked) if asked is not None else None
