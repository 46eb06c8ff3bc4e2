"""Demands that wait together and are placed together.

In: what the allocator answered to a queue. Out: a plan to follow one decision at a time, as long as the nodes still have
the room.
"""

from apportion.allocator.decision import Decision
from apportion.allocator.queue import Answer

LEAST_TOGETHER = 2
MOST_TOGETHER = 64
"""Demands placed together: the last of those that wait. Whoever comes before them gets the best place for itself."""


def planned(plan: dict[str, Answer], key: str, nodes: frozenset[str]) -> Answer | None:
    """Return what was planned for a demand; give up the whole plan where its node has no room for the pods any more."""
    answer = plan.get(key)
    if isinstance(answer, Decision) and answer.node not in nodes:
        plan.clear()
        return None
    return answer
