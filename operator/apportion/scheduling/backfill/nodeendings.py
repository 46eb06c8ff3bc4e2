"""NodeEndings: which devices become free on a node, and when, by what the pods that use them declare.

In: the snapshot's changes. Out: the endings of a node, the cpu and memory that become free with each, and the namespaces of
which a pod runs longer than it declared.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from apportion.allocator.future import Ending
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.node import Resources
from apportion.dra.pod import Pod
from apportion.scheduling.demands.consumers import is_freed_by_its_pods
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import immediate
from apportion.scheduling.pace import Changed

_Name: TypeAlias = tuple[str, str]
"""Namespace and name of a claim."""
_Holder: TypeAlias = tuple[str, tuple[DeviceResult, ...]]
"""UID of a claim, and what it holds."""


@dataclass(frozen=True, slots=True)
class Endings:
    """What becomes free on a node, in the order in which it does: devices, and what pods request beside them."""

    devices: tuple[Ending, ...] = ()
    requests: tuple[Resources, ...] = ()
    """For each of them what its pods request, `pods` included."""
    pods: tuple[frozenset[str], ...] = ()
    """For each of them these pods (UIDs)."""

    def without(self, claims: Collection[str]) -> "Endings":
        """Return the same where these claims (UIDs) keep their devices."""
        return replace(self, devices=tuple([_without(each, claims) for each in self.devices]))


@dataclass(slots=True)
class _Held:
    """What ends at one moment."""

    holders: list[_Holder] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)


_NONE = Endings()
_STALE = 4
"""Rows of the heap for each that is true; beyond that it is made anew."""


class NodeEndings:
    """Claims with devices by node, as they come and go."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cursor = -1
        """How far the changes of claims were read."""
        self._changed = Changed[_Name]()
        self._touched = set[str]()
        """Nodes where something changed since the former `follow`."""
        self._places: dict[_Name, tuple[str, str]] = {}
        """UID and node of each claim that has devices of one node, assumed ones included."""
        self._on_node: dict[str, dict[str, None]] = {}
        """Claims (UIDs) by node."""
        self._kept: dict[str, tuple[float, Endings]] = {}
        """The endings of nodes of which nothing changed since, and until when they are true."""
        self._slices = -1
        self._promises: dict[_Name, float] = {}
        """When the first running pod of a claim will run longer than it declares, where one declares anything."""
        self._due: list[tuple[float, _Name]] = []
        """The same as a heap, with some that are true no more."""
        self._exceeded: set[_Name] = set()
        """The claims of which a pod does."""

    def steps(self) -> Iterator[None]:
        """Look at the claims that changed, so that `follow` takes a moment; yields where others may run."""
        snapshot = self._snapshot
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        if changed is None:
            changed = [*self._places, *((each.namespace, each.name) for each in snapshot.claims.values())]
        yield from self._changed.steps(changed, self._look)

    def follow(self) -> set[str]:
        """Look at the claims that changed; returns the nodes where devices or pods with devices changed."""
        for _ in self.steps():
            pass
        touched, self._touched = self._touched, set()
        slices, self._slices = self._slices, self._snapshot.slice_epoch
        for node in touched if slices == self._slices else tuple(self._kept):
            self._kept.pop(node, None)
        return touched

    def of(self, node: str, now: float, others: Collection[str] = ()) -> Endings:
        """Return the endings of a node in the order in which they come, those of which nobody knows when at the end.

        `now`: seconds since 1970. A pod that has not started yet counts as one that starts now. `others`: claims (UIDs) that have devices which
        other nodes reach, too.
        """
        if others:
            return self._read(node, now, others)[0]
        until, kept = self._kept.get(node, (-math.inf, _NONE))
        if now < until:
            return kept
        found, until = self._read(node, now, ())
        self._kept[node] = until, found
        return found

    def _read(self, node: str, now: float, others: Collection[str]) -> tuple[Endings, float]:
        """Return the endings of a node, and until when they are true if nothing changes."""
        until = math.inf
        known: dict[float, _Held] = {}
        unknown: list[tuple[_Holder, list[Pod]]] = []
        seen: set[str] = set()
        published = self._snapshot.devices.device
        for claim in self._snapshot.claims_of(sorted({*self._on_node.get(node, ()), *others})):
            holder = self._held(claim)
            if any(published(result.device) is None for result in holder[1]):
                continue  # what a withdrawn device consumes is known only while it is held
            if immediate(claim):
                continue  # it keeps its devices until somebody deletes it
            pods = [pod for pod in self._snapshot.users(claim) if not pod.finished]
            own = [pod for pod in pods if pod.uid not in seen and pod.node in (None, node)]
            seen.update([pod.uid for pod in own])
            ends = {pod.uid: end for pod in pods if (end := end_of(pod, now)) is not None}
            until = min([until, *[ends[pod.uid] if pod.started else now for pod in pods if pod.uid in ends]])
            if not ends or len(ends) < len(pods) or not is_freed_by_its_pods(claim):
                unknown.append((holder, own))
                continue
            known.setdefault(max(ends.values()), _Held()).holders.append(holder)
            for pod in own:
                known.setdefault(ends[pod.uid], _Held()).pods.append(pod)
        found = [(Ending(at, tuple(each.holders)), each.pods) for at, each in sorted(known.items())]
        rest = [(Ending(None, (holder,)), pods) for holder, pods in unknown]
        found += sorted(rest, key=lambda row: (row[0].devices, row[0].held[0][0]))
        return Endings(
            tuple(ending for ending, _ in found),
            tuple(total(pods) for _, pods in found),
            tuple(frozenset(pod.uid for pod in pods) for _, pods in found),
        ), until

    def exceeding(self, now: float) -> frozenset[str]:
        """Return the namespaces of which a pod runs longer than its annotation says."""
        while self._due and self._due[0][0] <= now:
            at, name = heappop(self._due)
            if self._promises.get(name) == at:
                self._exceeded.add(name)
        return frozenset(namespace for namespace, _ in self._exceeded)

    def _look(self, name: _Name) -> None:
        before = self._places.pop(name, None)
        self._promises.pop(name, None)
        self._exceeded.discard(name)
        if before is not None:
            uid, node = before
            self._touched.add(node)
            del self._on_node[node][uid]
            if not self._on_node[node]:
                del self._on_node[node]
        claim = self._snapshot.claim(*name)
        allocation = self._snapshot.allocation(claim) if claim is not None else None
        if claim is not None and allocation is not None and allocation.node is not None:
            self._places[name] = claim.uid, allocation.node
            self._on_node.setdefault(allocation.node, {})[claim.uid] = None
            self._touched.add(allocation.node)
            running = [pod for pod in self._snapshot.users(claim) if pod.started and not pod.finished]
            at = min([pod.runtime.exceeded(seconds(pod.started)) for pod in running], default=math.inf)
            if at < math.inf:
                self._promise(name, at)

    def _promise(self, name: _Name, at: float) -> None:
        self._promises[name] = at
        if len(self._due) > _STALE * len(self._promises):
            self._due = [(each, other) for other, each in self._promises.items()]
            heapify(self._due)
        else:
            heappush(self._due, (at, name))

    def _held(self, claim: Claim) -> _Holder:
        allocation = self._snapshot.allocation(claim)
        return claim.uid, allocation.results if allocation is not None else ()


def _without(ending: Ending, claims: Collection[str]) -> Ending:
    return replace(ending, held=tuple([row for row in ending.held if row[0] not in claims]))


def end_of(pod: Pod, now: float) -> float | None:
    """Return when a pod will have ended, in seconds since 1970; None: nobody knows. One that has not started starts now."""
    return pod.runtime.end(seconds(pod.started) if pod.started else now, now)


@lru_cache(maxsize=65_536)
def seconds(text: str) -> float:
    """Return a time in RFC 3339 as seconds since 1970; one that nobody can read is never over."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return math.inf
