"""GuardedClaims: claims of classes that are not ours and that select our guarded devices: nobody would allocate them.

In: the snapshot, the clock. Out: each such claim once, with its pods. A claim is looked at when it has waited for some seconds, and
again when it or its pods change; the allocator says whether the guard taint is what keeps kube-scheduler from the class's devices.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Refusal
from apportion.allocator.demand import Demand
from apportion.api.contract import GUARD
from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim, Request, RequestSlot
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.demands.waiting import ready
from apportion.scheduling.pace import Changed

_PATIENCE = 5.0
"""Seconds within which kube-scheduler has allocated a claim that it can serve."""
_AT_ONCE = 2
"""Claims that are looked at in one pass: each asks the allocator for an explanation."""
_PODS = 256
"""Pods of a claim that hear of it: no more can reserve one."""


@dataclass(frozen=True, slots=True)
class GuardedClaim:
    """A claim of classes that are not ours, whose devices are."""

    claim: Claim
    pods: tuple[Pod, ...]
    classes: tuple[str, ...]
    """The classes that it names and whose devices are guarded."""


class GuardedClaims:
    """Follows the claims that kube-scheduler is to allocate."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._cursor = -1
        """How far the changes of claims were read."""
        self._managed: ManagedClasses | None = None
        self._since: dict[tuple[str, str], float] = {}
        """Claims (namespace and name) to look at, and when each came or changed; the oldest first."""
        self._changed = Changed[tuple[str, str]]()
        """By namespace and name."""

    def found(self) -> Iterator[GuardedClaim]:
        """Yield the claims of which it was found out now; others may run in between."""
        for _ in self.steps():
            pass
        now = self._clock()
        due = [*takewhile(lambda name: now - self._since[name] >= _PATIENCE, self._since)][:_AT_ONCE]
        for name in due:
            del self._since[name]
            claim = self._snapshot.claim(*name)
            if claim is None:
                continue
            classes = guarded_classes(claim, self._snapshot)
            if classes:
                pods = (pod for pod in self._snapshot.users(claim) if pod.node is None and ready(pod))
                yield GuardedClaim(claim, tuple(islice(pods, _PODS)), classes)

    def steps(self) -> Iterator[None]:
        """Look at the claims that changed; yields where others may run."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        self._cursor, changed = snapshot.changes.claims.since(self._cursor)
        if changed is None or managed is not self._managed:
            self._managed = managed
            changed = [
                *self._since,
                *(
                    (claim.namespace, claim.name)
                    for claim in snapshot.claims_of(snapshot.claim_index.unallocated)
                ),
            ]
        yield from self._changed.steps(changed, self._look)

    def _look(self, name: tuple[str, str]) -> int:
        """Look at a claim; returns how many pods name it."""
        claim = self._snapshot.claim(*name)
        if claim is not None and self._is_theirs(claim):
            self._since.setdefault(name, self._clock())
        else:
            self._since.pop(name, None)
        return len(self._snapshot.pod_index.users(*name))

    def _is_theirs(self, claim: Claim) -> bool:
        """Say whether kube-scheduler is to allocate a claim now."""
        managed = self._snapshot.managed
        return (
            claim.allocation is None
            and bool(claim.classes)
            and not claim.classes & managed.policies.keys()
            and not managed.unknown(claim)
            and any(pod.node is None and ready(pod) for pod in self._snapshot.users(claim))
        )


def guarded_classes(claim: Claim, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the classes of a claim of which the guard taint is all that keeps kube-scheduler from devices.

    The claim's own selectors are not asked: they may cost anything, and are nobody's business here.
    """
    return tuple(each for each in sorted(claim.classes) if _is_guarded(each, snapshot))


def _is_guarded(device_class: str, snapshot: Snapshot) -> bool:
    probe = Claim("", "probe", slots=(RequestSlot("device", (Request("device", device_class),)),))
    try:
        answer = allocate(snapshot.state, Demand((probe,)))
    except BrokenInput:
        return False
    groups = answer.explanation.groups if isinstance(answer, Refusal) else ()
    reports = [group.request for group in groups if group.kind == "taint" and group.request is not None]
    return any(GUARD in taint for report in reports for taint, _ in report.taints) and not any(
        group.kind in {"busy", "capacity", "counters"} for group in groups
    )
