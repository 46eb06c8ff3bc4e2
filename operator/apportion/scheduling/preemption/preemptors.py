"""Preemptors: for which of those that wait pods may be evicted, and who is looked at first.

In: demands, groups, policies, quotas, the time that each has waited. Out: the first of them, what is guaranteed before all others; whether pods
may be evicted for one by now.
"""

from collections.abc import Callable, Collection, Container, Generator, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice, zip_longest

from apportion.api.policy import Preemption as Settings
from apportion.api.policy import PreemptionMode
from apportion.scheduling.backfill.heads import key_of
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.groups import WaitingGroup, is_current_group
from apportion.scheduling.demands.waiting import WaitingDemand, place_of
from apportion.scheduling.pace import Pace
from apportion.scheduling.preemption.attempt import NOBODY, by_priority
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.guarantees import Guarantees
from apportion.scheduling.preemption.preemptor import Preemptor, of_demand, of_group

_RETRIED = 15.0
"""Seconds until victims are searched once more for a demand that found none."""
_REMEMBERED = 300.0
"""Seconds for which it is known that it found none, and is no new one."""
_OTHERS = 20.0
"""Seconds at least until then for each second that the search took."""
_MOST_ASKED = 16
"""How many are looked at in one turn."""


@dataclass(frozen=True, slots=True)
class Begun:
    """When a search began."""

    at: float
    """By the clock."""
    seen: int
    """How far changes of nodes were read then."""


@dataclass(frozen=True, slots=True)
class _InVain:
    """One that found no victims."""

    at: float
    """When they were last searched on all nodes."""
    latest: float
    """When they were on some of them since."""
    resumes: float
    """When they may be searched once more at the earliest."""
    evicts: bool
    """Whether pods could be evicted for it then, and not only waited for."""
    seen: int
    """How far changes of nodes were read then."""


class Preemptors:
    """Chooses among demands and groups."""

    def __init__(
        self, decider: Decider, guarantees: Guarantees, cooldown: Cooldown, clock: Callable[[], float]
    ) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._guarantees = guarantees
        self._cooldown = cooldown
        self._clock = clock
        self._in_vain: dict[object, _InVain] = {}
        """By key, or by what stands for all of their shape: who of these finds none finds none for the others."""
        self._repeats = 0.0
        """When a search on all nodes may be repeated before its time, by the clock."""

    def exist(self) -> bool:
        """Say whether pods may be evicted for anybody."""
        policies = self._snapshot.managed.policies.values()
        return self._guarantees.are_kept() or any(
            policy.preemption.mode is not PreemptionMode.NEVER for policy in policies
        )

    def settings(self, demand: WaitingDemand) -> Settings:
        """Return what the policy of a demand says."""
        return self._snapshot.managed.policy(demand.claims[0]).preemption

    def first(
        self,
        demands: Iterable[WaitingDemand],
        groups: Collection[WaitingGroup],
        active: Collection[Preemptor],
    ) -> Generator[None, None, tuple[list[Preemptor], list[Preemptor]]]:
        """Return the first for which pods may be evicted, without those under way (`active`); and the first that repeat a search before its time.

        New ones, in their order, take turns with those for whom nobody has searched for the longest time: nobody waits for ever behind others that find none.
        Yields where others may run.
        """
        now = self._clock()
        self._in_vain = {key: each for key, each in self._in_vain.items() if now - each.at < _REMEMBERED}
        possible: list[tuple[Preemptor, bool]] = []
        resting: set[object] = set()  # those of which none, or no further one, is looked at
        for each in self._found(demands, groups, active):
            if each is None:
                yield
            elif (topic := self.topic(each)) not in resting:
                if (only := self.only(each)) is not None:
                    resting.add(topic)
                if only != frozenset():
                    possible.append((each, only is not None))
        covered = yield from self._guarantees.covered([each.demand for each, _ in possible])
        return (yield from self._in_turns(possible, covered))

    def all(
        self,
        demands: Iterable[WaitingDemand],
        groups: Collection[WaitingGroup],
        active: Collection[Preemptor],
    ) -> Generator[None, None, list[Preemptor]]:
        """Return all for which pods may be evicted, without those under way (`active`), what is guaranteed first; yields where others may run."""
        possible: list[Preemptor] = []
        for each in self._found(demands, groups, active):
            if each is None:
                yield
            else:
                possible.append(each)
        covered = yield from self._guarantees.covered([each.demand for each in possible])
        managed = self._snapshot.managed
        rows = [each for each in possible if each.key in covered or self._goes_by_priority(each)]
        return sorted(rows, key=lambda each: (each.key not in covered, place_of(each.demand, managed)))

    def _found(
        self,
        demands: Iterable[WaitingDemand],
        groups: Collection[WaitingGroup],
        active: Collection[Preemptor],
    ) -> Iterator[Preemptor | None]:
        """Yield those that wait, have nothing yet, and for which nothing is under way; and None where others may run."""
        pace = Pace()
        single = (of_demand(demand) for demand in demands if demand.pods and not demand.members)
        grouped = map(of_group, (*groups, *self._resting(groups)))
        active_keys = {member.key for each in active for member in each.members}
        active_groups = {each.group.pod_group.key for each in active if each.group is not None}
        for each in chain(single, grouped):
            if pace.rests():
                yield None
            if (
                each is not None
                and active_keys.isdisjoint(member.key for member in each.members)
                and (each.group is None or each.group.pod_group.key not in active_groups)
                and all(self._snapshot.allocation(claim) is None for claim in each.demand.claims)
            ):
                yield each

    def _in_turns(
        self, rows: Iterable[tuple[Preemptor, bool]], covered: Container[str]
    ) -> Generator[None, None, tuple[list[Preemptor], list[Preemptor]]]:
        """Return the first of those that search on all nodes, and of those that repeat a search before its time (True); yields where others may run."""
        fresh: list[tuple[tuple[object, ...], Preemptor]] = []
        by_time: list[tuple[tuple[object, ...], Preemptor]] = []
        repeated: list[tuple[tuple[object, ...], float, Preemptor]] = []
        now, pace = self._clock(), Pace()
        for number, (each, repeats) in enumerate(rows):
            if pace.rests():
                yield
            if each.key not in covered and not self._goes_by_priority(each):
                continue
            place = place_of(each.demand, self._snapshot.managed)
            order = not self.may_evict(each), each.key not in covered, place, number
            last = self._in_vain.get(self.topic(each))
            if repeats and last is not None:
                repeated.append((order, last.latest, each))
                continue
            at = now - self._decider.waits_for(each.members[0].key) if last is None else last.at
            by_time.append(((order[0], at, number), each))
            if last is None:
                fresh.append((order, each))
        pairs = zip_longest(nsmallest(_MOST_ASKED, fresh), nsmallest(_MOST_ASKED, by_time))
        due = {row[-1].key: row[-1] for pair in pairs for row in pair if row is not None}
        longest_ago = sorted(nsmallest(_MOST_ASKED, repeated), key=lambda row: row[1])
        return [*islice(due.values(), _MOST_ASKED)], [each for *_, each in longest_ago]

    def topic(self, preemptor: Preemptor) -> object:
        """Return by what it is known what was searched for one: its key, or what stands for all of its shape."""
        alike = self._decider.refusals.alike_of(preemptor.key) if preemptor.group is None else None
        return preemptor.key if alike is None else alike

    def alike(self, preemptor: Preemptor) -> object:
        """Return what decides whether something that ends would do for one; None: it is like no other."""
        shape = self._decider.alike(preemptor.demand) if preemptor.group is None else None
        return None if shape is None else (preemptor.demand.claims[0].namespace, shape)

    def _resting(self, groups: Collection[WaitingGroup]) -> list[WaitingGroup]:
        """Return groups for which devices are reserved, and which this pass does not look at, because they are large and were refused."""
        known = {group.pod_group.key for group in groups}
        heads = [each.head for each in self._decider.reservations.reserved]
        return [
            head
            for head in heads
            if isinstance(head, WaitingGroup)
            and head.pod_group.key not in known
            and is_current_group(head, self._snapshot)
        ]

    def was_tried(self, preemptor: Preemptor) -> bool:
        """Say whether it is known that one has found nobody before."""
        return self.topic(preemptor) in self._in_vain

    def only(self, preemptor: Preemptor) -> frozenset[str] | None:
        """Return the nodes on which victims are searched for one now; None: on all, because its time has come.

        One that found none waits, unless something changed: where devices are reserved for it, else anywhere. A single demand then looks at the
        nodes that did; a group at all, because its members may go to different ones. Searches for a group may take long: others get more time than
        they do.
        """
        known, now = self._in_vain.get(self.topic(preemptor)), self._clock()
        if known is None or now - known.at >= _RETRIED or (not known.evicts and self.may_evict(preemptor)):
            return None
        if now < known.resumes:
            return frozenset()
        reservations, key = self._decider.reservations, key_of(preemptor.head)
        if key in reservations:
            return reservations.nodes_changed_since(key, known.latest)
        changed = reservations.nodes.by_others_since(known.seen)
        if changed is None or (changed and preemptor.group is not None):
            return frozenset(self._snapshot.state.names()) if now >= self._repeats else frozenset()
        return changed

    def _goes_by_priority(self, preemptor: Preemptor) -> bool:
        """Say whether the policies of all of its claims let others go for it."""
        return by_priority(preemptor.demand, self._snapshot.managed) is not NOBODY

    def forget(self) -> None:
        """Forget who found none."""
        self._in_vain.clear()

    def begun(self) -> Begun:
        """Note that a search begins: what changes from now on may have come too late for it."""
        return Begun(self._clock(), self._decider.reservations.nodes.others_end)

    def found_none(self, preemptor: Preemptor, begun: Begun, seconds: float, *, evicts: bool) -> None:
        """Leave one alone for a while: there are no victims for it where they were searched.

        `seconds`: how long the search took, without others that ran meanwhile. `evicts`: whether pods could be evicted.
        """
        resumes, topic = self._clock() + seconds * _OTHERS, self.topic(preemptor)
        known = self._in_vain.get(topic)
        repeats = known is not None and begun.at - known.at < _RETRIED
        at = known.at if known is not None and repeats and known.evicts == evicts else begun.at
        if repeats:
            self._repeats = resumes
        self._in_vain[topic] = _InVain(at, begun.at, resumes, evicts, begun.seen)

    def may_evict(self, preemptor: Preemptor) -> bool:
        """Say whether pods may be evicted for one by now; if not, it can still wait for what ends anyway."""
        demand, managed = preemptor.demand, self._snapshot.managed
        after = max([managed.policy(claim).preemption.after for claim in demand.claims]).total_seconds()
        return (
            all(self._decider.waits_for(member.key) >= after for member in preemptor.members)
            and not self._cooldown.rests(demand.claims[0].namespace)
            and all(pod.preempts for pod in demand.pods)
        )
