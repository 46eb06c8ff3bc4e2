"""WaitingQueue: follows claims and pods, so that only demands of which something changed are put together anew.

In: the snapshot. Out: demands in queue order; the claims and pods that cannot be served as they are; and what came and went.
"""

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass

from apportion.api.claimconfig import check_configuration, check_drivers
from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling.demands.component import component_of
from apportion.scheduling.demands.waiting import (
    IMMEDIATE,
    MixedClasses,
    RefusedConfiguration,
    UnknownClasses,
    Unservable,
    WaitingDemand,
    immediate,
    kept_for,
    place_of,
)
from apportion.scheduling.pace import Pace


@dataclass(frozen=True, slots=True)
class _Found:
    """What claims that hang together led to, and the claims (namespace and name) by which that may change."""

    demand: WaitingDemand | None
    unservable: tuple[Unservable, ...]
    claims: tuple[str, ...]
    """UIDs of the claims that wait."""
    names: frozenset[tuple[str, str]]


class WaitingQueue:
    """Follows claims and pods: only demands of which something changed are put together anew."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cursor = -1
        """How far the changes of claims were read."""
        self._managed = snapshot.managed
        self._drivers = frozenset[str]()
        """Those that had devices when it was last looked which claims cannot be served as they are."""
        self._found: dict[str, _Found] = {}
        """By claim (UID)."""
        self._by_name: dict[tuple[str, str], dict[int, _Found]] = {}
        """What was found, by the names that it depends on and by `id`: not each of its claims by each of its names, which would be the square of them."""
        self._todo: set[str] = set()
        """Claims (UIDs) to look at."""
        self._unfinished = False
        """Whether somebody began to gather, and gave up."""
        self._ordered: list[tuple[int, str, str]] = []
        """Where each demand belongs in the queue, in order."""
        self._demands: list[WaitingDemand] = []
        """In the same order."""
        self._gone: dict[str, None] = {}
        self._came: dict[str, WaitingDemand] = {}
        """By key, since `news` was last asked for."""
        self._given = self._gone, self._came
        """What it returned then."""
        self._flawed: dict[str, _Found] = {}
        """Those with something that cannot be served, by one of their claims (UID)."""
        self._queue: tuple[list[WaitingDemand], list[Unservable]] = [], []

    def demands(self) -> tuple[list[WaitingDemand], list[Unservable]]:
        """Return what `gather` returns, in one go."""
        steps = self.gather()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: tuple[list[WaitingDemand], list[Unservable]] = end.value
                return found

    def gather(self) -> Generator[None, None, tuple[list[WaitingDemand], list[Unservable]]]:
        """Return all demands in queue order, and the claims and pods that cannot be served as they are.

        Yields after each few claims and pods. Where the snapshot changes meanwhile, a demand may be outdated when it is decided
        (`waiting.is_current`).

        Demands of higher priority go first, then older ones. For a demand whose policy says `queue.order: FIFO` the priority
        of its pods counts as 0: among such demands the older one goes first.
        """
        yield from self._snapshot.changes.steps()
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        pace, drivers = Pace(), frozenset(snapshot.devices.names.drivers)
        if changed is not None and drivers != self._drivers:
            # Parameters for a driver without devices are refused, if it is called nearly like one of ours.
            changed = [*changed, *(name for found in self._flawed.values() for name in found.names)]
        self._drivers = drivers
        if managed is not self._managed or changed is None or self._unfinished:
            self._managed = managed
            self._gone.update(dict.fromkeys(demand.key for demand in self._demands))
            for known in (self._found, self._by_name, self._ordered, self._demands, self._flawed, self._came):
                known.clear()
            self._todo = set(snapshot.claim_index.unallocated)
        elif not changed:
            return self._queue
        self._unfinished = True
        for name in dict.fromkeys(changed or ()):
            yield from self._drop(name, pace)
        while self._todo:
            if pace.rests():
                yield
            uid = self._todo.pop()
            claim = snapshot.claims.get(uid)
            if claim is not None and uid in snapshot.claim_index.unallocated and uid not in self._found:
                yield from self._look(claim, pace)
        unique = {id(found): found for found in self._flawed.values()}.values()
        self._queue = [*self._demands], [each for found in unique for each in found.unservable]
        self._unfinished = False
        return self._queue

    def news(self, *, anew: bool = False) -> tuple[Collection[str], Collection[WaitingDemand]]:
        """Return the keys of demands that went or changed, and the demands that came or changed, since the former call.

        `anew`: with those of that call, which nobody has looked at to the end; all of them count as changed.
        """
        if anew:
            gone, came = self._given
            left = {key: demand for key, demand in came.items() if key not in self._gone}
            self._gone, self._came = {**gone, **dict.fromkeys(came), **self._gone}, {**left, **self._came}
        self._given = self._gone, self._came
        self._gone, self._came = {}, {}
        return self._given[0].keys(), self._given[1].values()

    def _drop(self, name: tuple[str, str], pace: Pace) -> Iterator[None]:
        """Forget what depends on a claim of this name, and note the claims to look at."""
        if pace.rests():
            yield
        for found in tuple(self._by_name.get(name, {}).values()):
            for uid in found.claims:
                if pace.rests():
                    yield
                self._todo.add(uid)
                self._remove(uid)
            for other in (*(found.names - {name}), name):
                if pace.rests():
                    yield
                rows = self._by_name.get(other, {})
                rows.pop(id(found), None)
                if not rows:
                    self._by_name.pop(other, None)
        now = self._snapshot.claim_index.named(*name)
        if now is not None:
            self._todo.add(now)

    def _look(self, claim: Claim, pace: Pace) -> Iterator[None]:
        snapshot, managed = self._snapshot, self._snapshot.managed
        if snapshot.allocation(claim) is not None:
            return
        unservable: tuple[Unservable, ...] = ()
        hang: tuple[Claim, ...] = (claim,)
        """Claims that wait together."""
        tied: tuple[Claim, ...] = ()
        demand: WaitingDemand | None = None
        parts = managed.mixes(claim)
        if parts is not None:
            unservable = (MixedClasses(claim, *parts),)
        elif managed.owns(claim):
            component = yield from component_of(claim, snapshot, pace)
            hang, tied, unservable = component.claims, component.tied, component.left_out
            if component.demand is not None:
                refused = tuple(_refused(component.demand, snapshot))
                demand, unservable = None if refused else component.demand, unservable + refused
            elif not any(snapshot.users(claim)):
                unservable += tuple(_misspelt(claim))
        else:
            missing = managed.unknown(claim)
            if missing and (immediate(claim) or any(GATE in pod.gates for pod in snapshot.users(claim))):
                unservable = (UnknownClasses(claim, missing, managed.known),)
        if demand is None and not unservable:
            return
        found = _Found(
            demand,
            unservable,
            tuple([each.uid for each in hang]),
            frozenset([(each.namespace, each.name) for each in (*hang, *tied)]),
        )
        for uid in found.claims:
            if pace.rests():
                yield
            self._put(uid, found)
        for name in found.names:
            if pace.rests():
                yield
            self._by_name.setdefault(name, {})[id(found)] = found

    def _put(self, uid: str, found: _Found) -> None:
        self._remove(uid)
        self._found[uid] = found
        if found.unservable:
            self._flawed[uid] = found
        if found.demand is not None and found.demand.key == uid:
            row = place_of(found.demand, self._managed)
            at = bisect_left(self._ordered, row)
            self._ordered.insert(at, row)
            self._demands.insert(at, found.demand)
            self._came[uid] = found.demand

    def _remove(self, uid: str) -> None:
        """Forget what a claim led to."""
        found = self._found.pop(uid, None)
        if found is None:
            return
        self._flawed.pop(uid, None)
        if found.demand is not None and found.demand.key == uid:
            at = bisect_left(self._ordered, place_of(found.demand, self._managed))
            del self._ordered[at], self._demands[at]
            self._gone[uid] = None
            self._came.pop(uid, None)


def waiting_demands(snapshot: Snapshot) -> tuple[list[WaitingDemand], list[Unservable]]:
    """Return all demands in queue order, and the claims and pods that cannot be served as they are."""
    return WaitingQueue(snapshot).demands()


def _refused(demand: WaitingDemand, snapshot: Snapshot) -> Iterator[RefusedConfiguration]:
    """Yield the claims of a demand with configuration, their own or of a class, that we or our agents would refuse."""
    for claim in demand.claims:
        try:
            kept_for(claim)
            classes, drivers = snapshot.state.classes, snapshot.drivers
            check_configuration(claim, classes, drivers)
            if claim.config:
                check_drivers(claim, classes, drivers, snapshot.devices.names.drivers)
        except BrokenInput as error:
            yield RefusedConfiguration(claim, demand.pods, error)


def _misspelt(claim: Claim) -> Iterator[RefusedConfiguration]:
    """Yield a claim that no pod names and that says otherwise than Immediate that it needs none: it would wait for ever."""
    text = claim.annotations.get(GATE)
    if text is not None and not claim.deleting:
        flaw = BrokenInput(f"expected {IMMEDIATE}, not {text[:40]!r}", field=f"metadata.annotations[{GATE}]")
        yield RefusedConfiguration(claim, (), flaw)
