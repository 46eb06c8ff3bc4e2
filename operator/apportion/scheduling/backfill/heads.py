"""Heads: for which of those that wait devices are reserved.

In: demands and groups that were refused. Out: those that waited long enough (`queue.reserveAfter`), in order: higher priority first; within
equal priority namespaces take turns, each with its oldest (ADR 14); by age alone where the policy says `queue.order: FIFO`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from apportion.api.policy import Queue, QueueOrder
from apportion.cluster.managedclasses import ManagedClasses
from apportion.scheduling.backfill.nodeendings import seconds
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand, priority_of
from apportion.scheduling.pace import Pace

Head: TypeAlias = WaitingDemand | WaitingGroup


def key_of(head: Head) -> str:
    """Return what stays the same as long as it waits: of a group its name, whatever pods come and go."""
    return head.key if isinstance(head, WaitingDemand) else f"group/{head.pod_group.key}"


def members_of(head: Head) -> tuple[WaitingDemand, ...]:
    """Return its demands."""
    return (head,) if isinstance(head, WaitingDemand) else head.demands


def queue_of(head: Head, managed: ManagedClasses) -> Queue:
    """Return what its policy says about the queue."""
    return managed.policy(members_of(head)[0].claims[0]).queue


@dataclass(slots=True)
class _Line:
    """Those of one priority and namespace, of which each has its turn after the one before it; under a FIFO policy one by itself."""

    left: list[tuple[str, str, Head]]
    """When they came, their keys, themselves; the first at the end."""
    turn: int = 0


def waited_enough(head: Head, managed: ManagedClasses, now: float) -> bool:
    """Say whether one has waited long enough for devices to be reserved for it. `now`: seconds since 1970."""
    first, queue = members_of(head)[0], queue_of(head, managed)
    return bool(queue.most_reserved) and now - seconds(first.since) >= queue.reserve_after.total_seconds()


def heads(
    waiting: Iterable[Head],
    managed: ManagedClasses,
    now: float,
    may_have: Callable[[Head], bool],
    planned: Mapping[str, float],
) -> Iterator[Head | None]:
    """Yield those that have waited long enough for devices to be reserved for them, the first of the queue first, and None where others may run.

    `may_have`: whether nothing is against a reservation for one that has none: nobody else takes a turn; who is not reached is not asked about.
    `planned`: by key, when the reservations were planned that there are: their heads come last, the one that was planned the longest ago first.
    `now`: seconds since 1970.
    """
    pace, lines, reserved = Pace(), dict[tuple[int, str, str], _Line](), list[Head]()
    for each in waiting:
        if waited_enough(each, managed, now):
            first = members_of(each)[0]
            alone = first.key if queue_of(each, managed).order == QueueOrder.FIFO else ""
            own = -priority_of(first, managed), first.claims[0].namespace, alone
            lines.setdefault(own, _Line([])).left.append((first.since, first.key, each))
        if pace.rests():
            yield None
    for line in lines.values():
        line.left.sort(key=lambda row: row[:2], reverse=True)
    due = [(priority, line.turn, *line.left[-1][:2], line) for (priority, _, _), line in lines.items()]
    heapify(due)
    while due:
        priority, _, _, _, line = heappop(due)
        _, _, head = line.left.pop()
        if key_of(head) in planned:
            line.turn += 1
            reserved.append(head)
        elif may_have(head):
            line.turn += 1
            yield head
        if line.left:
            heappush(due, (priority, line.turn, *line.left[-1][:2], line))
        if pace.rests():
            yield None
    yield from sorted(reserved, key=lambda head: planned[key_of(head)])
