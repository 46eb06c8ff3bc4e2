"""Demands that wait together and are placed together.

In: what a batch answered. Out: a plan to follow one decision at a time, as long as the nodes still have the room.
"""

from apportion.allocator.batch import Answer
from apportion.allocator.decision import Decision

MOST_TOGETHER = 32
"""Demands placed as one batch: the last of those that wait. Whoever comes before them gets the best place for itself."""


def planned(plan: dict[str, Answer], key: str, nodes: frozenset[str]) -> Answer | None:
    """Return what was planned for a demand; give up the whole plan where its node has no room for the pods any more."""
    answer = plan.get(key)
    if isinstance(answer, Decision) and answer.node not in nodes:
        plan.clear()
        return None
    return answer
