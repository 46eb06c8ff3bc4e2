"""WaitingQueue: follows claims and pods, so that only demands of which something changed are put together anew.

In: the snapshot. Out: demands in queue order; the claims and pods that cannot be served as they are; and what came and went.
"""

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass

from apportion.api.claimconfig import as_asked, check_configuration, check_drivers
from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.waiting import (
    IMMEDIATE,
    MixedClasses,
    RefusedConfiguration,
    UnknownClasses,
    UnknownScheduler,
    Unservable,
    WaitingDemand,
    claims_of,
    immediate,
    kept_for,
    place_of,
    ready,
)

AT_ONCE = 64
"""Claims that `gather` reads before it yields."""


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
        self._found: dict[str, _Found] = {}
        """By claim (UID)."""
        self._by_name: dict[tuple[str, str], dict[int, _Found]] = {}
        """What was found, by the names that it depends on and by `id`: not each of its claims by each of its names, which would be the square of them."""
        self._todo: set[str] = set()
        """Claims (UIDs) to look at; some are left where the caller gives up."""
        self._ordered: list[tuple[int, str, str]] = []
        """Where each demand belongs in the queue, in order."""
        self._demands: list[WaitingDemand] = []
        """In the same order."""
        self._gone: dict[str, None] = {}
        self._came: dict[str, WaitingDemand] = {}
        """By key, since `news` was last asked for."""
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

        Yields after each few claims. Where the snapshot changes meanwhile, a demand may be outdated when it is decided
        (`waiting.is_current`).

        Demands of higher priority go first, then older ones. For a demand whose policy says `queue.order: FIFO` the priority
        of its pods counts as 0: among such demands the older one goes first.
        """
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        if managed is not self._managed or changed is None:
            self._managed, changed = managed, None
            self._gone.update(dict.fromkeys(demand.key for demand in self._demands))
            for known in (self._found, self._by_name, self._ordered, self._demands, self._flawed, self._came):
                known.clear()
            self._todo = set(snapshot.claim_index.unallocated)
        elif not changed and not self._todo:
            return self._queue
        else:
            self._todo.update(uid for name in {*changed} for uid in self._drop(name))
        looked = 0
        while self._todo:
            uid = self._todo.pop()
            looked += 1
            if looked % AT_ONCE == 0:
                yield
            claim = snapshot.claims.get(uid)
            if claim is not None and uid in snapshot.claim_index.unallocated and uid not in self._found:
                self._look(claim)
        unique = {id(found): found for found in self._flawed.values()}.values()
        self._queue = [*self._demands], [each for found in unique for each in found.unservable]
        return self._queue

    def news(self) -> tuple[Collection[str], Collection[WaitingDemand]]:
        """Return the keys of demands that went or changed, and the demands that came or changed, since the former call."""
        news = self._gone.keys(), self._came.values()
        self._gone, self._came = {}, {}
        return news

    def _drop(self, name: tuple[str, str]) -> set[str]:
        """Forget what depends on a claim of this name; returns the claims (UIDs) to look at."""
        todo, more = set[str](), self._snapshot.claim_index.named(*name)
        for found in tuple(self._by_name.get(name, {}).values()):
            todo.update(found.claims)
            for uid in found.claims:
                self._remove(uid)
            for other in found.names:
                rows = self._by_name.get(other, {})
                rows.pop(id(found), None)
                if not rows:
                    self._by_name.pop(other, None)
        return todo | {more} if more is not None else todo

    def _look(self, claim: Claim) -> None:
        snapshot, managed = self._snapshot, self._snapshot.managed
        if snapshot.allocation(claim) is not None:
            return
        unservable: tuple[Unservable, ...] = ()
        component: WaitingDemand | None = None
        demand: WaitingDemand | None = None
        """The same, if it can be served."""
        parts = managed.mixes(claim)
        if parts is not None:
            unservable = (MixedClasses(claim, *parts),)
        elif managed.owns(claim):
            component = _component(claim, snapshot)
            unservable = tuple(
                UnknownScheduler(pod, snapshot.schedulers)
                for each in (component.claims if component is not None else (claim,))
                for pod in snapshot.users(each)
                if ready(pod) and not _has_scheduler(pod, snapshot)
            )
            if component is not None:
                refused = tuple(_refused(component, snapshot))
                demand, unservable = None if refused else component, unservable + refused
            elif not any(snapshot.users(claim)):
                unservable += tuple(_misspelt(claim))
        else:
            missing = managed.unknown(claim)
            if missing and (immediate(claim) or any(GATE in pod.gates for pod in snapshot.users(claim))):
                unservable = (UnknownClasses(claim, missing, managed.known),)
        if demand is None and not unservable:
            return
        hang = (*component.claims, *component.tied) if component is not None else ()
        found = _Found(
            demand,
            unservable,
            tuple([each.uid for each in component.claims]) if component is not None else (claim.uid,),
            frozenset((each.namespace, each.name) for each in (claim, *hang)),
        )
        for uid in found.claims:
            self._put(uid, found)
        for name in found.names:
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


def _component(start: Claim, snapshot: Snapshot) -> WaitingDemand | None:
    """Return the demand of a claim: the ready pods that name it, their claims, the pods that name those, and so on."""
    managed = snapshot.managed
    claims: dict[str, Claim] = {}
    tied: dict[str, Claim] = {}
    pods: dict[str, Pod] = {}
    looked: set[str] = set()
    """Pods (UIDs) that were looked at: one may name many of the claims."""
    todo = [start]
    while todo:
        claim = todo.pop()
        if claim.uid in claims or claim.uid in tied:
            continue
        if snapshot.allocation(claim) is not None:
            tied[claim.uid] = claim
            continue
        if not managed.owns(claim):
            continue  # kube-scheduler allocates it
        claims[claim.uid] = claim
        for pod in snapshot.users(claim):
            if pod.uid not in looked:
                looked.add(pod.uid)
                others = _startable(pod, snapshot)
                if others is not None:
                    pods[pod.uid] = pod
                    todo.extend(others)
    if not pods and not immediate(start):
        return None
    ordered = tuple(sorted(claims.values(), key=lambda c: (c.created, c.key)))
    return WaitingDemand(
        claims=ordered,
        pods=tuple(sorted(pods.values(), key=lambda p: p.uid)),
        tied=tuple(sorted(tied.values(), key=lambda c: c.key)),
        asked=tuple(as_asked(claim, snapshot.state.classes, snapshot.drivers) for claim in ordered),
    )


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


def _has_scheduler(pod: Pod, snapshot: Snapshot) -> bool:
    """Say whether a scheduler that we know binds the pod, or it is bound already."""
    return pod.node is not None or pod.scheduler in snapshot.schedulers


def _startable(pod: Pod, snapshot: Snapshot) -> tuple[Claim, ...] | None:
    """Return the claims of a pod that can start once they are allocated; None: it cannot."""
    if not ready(pod) or not _has_scheduler(pod, snapshot):
        return None
    found, managed = claims_of(pod, snapshot), snapshot.managed
    # A pod with a claim that nobody can allocate does not start: serving its other claims would waste them.
    if found is None or any(managed.mixes(each) or managed.unknown(each) for each in found):
        return None
    return found
