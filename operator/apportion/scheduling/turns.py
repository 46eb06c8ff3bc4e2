"""in_turns(): the order in which those that wait are decided (ADR 0014).

In: the queue, by priority and age. Out: the same, higher priority first; among those of equal priority
namespaces take turns, one demand or group each, in the order in which their oldest came. Demands whose
policy says `queue.order: FIFO` share the places that they get by this, the oldest first.
"""

from collections import Counter
from collections.abc import Sequence

from apportion.api.policy import QueueOrder
from apportion.cluster.managedclasses import ManagedClasses
from apportion.scheduling.groups import CrossGroupDemand, Queued, WaitingGroup
from apportion.scheduling.waiting import WaitingDemand, priority_of


def in_turns(queue: Sequence[Queued], managed: ManagedClasses) -> list[Queued]:
    """Return the queue in the order in which it is decided; groups without a waiting demand are the last."""
    turns: Counter[tuple[int, str]] = Counter()
    rows: list[tuple[bool, int, int, int]] = []
    fifo: dict[int, list[int]] = {}
    for number, each in enumerate(queue):
        first = _first(each)
        if first is None:
            rows.append((True, 0, 0, number))
            continue
        claim, priority = first.claims[0], priority_of(first, managed)
        turn = priority, claim.namespace
        rows.append((False, -priority, turns[turn], number))
        turns[turn] += 1
        policy = managed.policy(claim)
        if policy.queue.order == QueueOrder.FIFO:
            fifo.setdefault(id(policy), []).append(number)
    order = [number for *_, number in sorted(rows)]
    for members in fifo.values():
        own = set(members)
        oldest = iter(members)
        order = [next(oldest) if number in own else number for number in order]
    return [queue[number] for number in order]


def _first(queued: Queued) -> WaitingDemand | None:
    match queued:
        case WaitingGroup():
            return queued.demands[0] if queued.demands else None
        case CrossGroupDemand():
            return queued.demand
        case _:
            return queued
