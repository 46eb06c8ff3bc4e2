"""Heads: for which of those that wait devices are reserved.

In: demands and groups that were refused. Out: those that waited long enough (`queue.reserveAfter`), in order: higher priority first; within
equal priority namespaces take turns, each with its oldest (ADR 14); by age alone where the policy says `queue.order: FIFO`.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from apportion.api.policy import Queue, QueueOrder
from apportion.cluster.managedclasses import ManagedClasses
from apportion.scheduling.backfill.nodeendings import seconds
from apportion.scheduling.groups import WaitingGroup
from apportion.scheduling.waiting import WaitingDemand, priority_of

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


def heads(waiting: Iterable[Head], managed: ManagedClasses, now: float) -> list[Head]:
    """Return those that have waited long enough for devices to be reserved for them, the first of the queue first.

    `waiting`: those that were refused. `now`: seconds since 1970.
    """
    rows: list[tuple[int, str, str, Head]] = []
    for each in waiting:
        first, queue = members_of(each)[0], queue_of(each, managed)
        if queue.most_reserved and now - seconds(first.since) >= queue.reserve_after.total_seconds():
            rows.append((-priority_of(first, managed), first.since, first.key, each))
    turns: Counter[tuple[int, str]] = Counter()
    ordered: list[tuple[tuple[int, int, str, str], Head]] = []
    for priority, since, key, each in sorted(rows, key=lambda row: row[:3]):
        turn = 0
        if queue_of(each, managed).order != QueueOrder.FIFO:
            own = priority, members_of(each)[0].claims[0].namespace
            turn, turns[own] = turns[own], turns[own] + 1
        ordered.append(((priority, turn, since, key), each))
    return [each for _, each in sorted(ordered, key=lambda row: row[0])]
