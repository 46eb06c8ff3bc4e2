"""Demands that wait together and are placed together.

In: what a batch answered. Out: a plan to follow one decision at a time, as long as the nodes still have the room.
"""

from collections.abc import Mapping

from apportion.allocator.decision import Decision, Refusal

MOST_TOGETHER = 32
"""Demands placed as one batch: the last of those that wait. Whoever comes before them gets the best place for itself."""


def whole(answers: Mapping[str, Decision | Refusal]) -> dict[str, Decision]:
    """Return the decisions by demand if nobody was refused, else nothing: an older demand must not lose to newer ones."""
    found = {key: answer for key, answer in answers.items() if isinstance(answer, Decision)}
    return found if len(found) == len(answers) else {}


def planned(plan: dict[str, Decision], key: str, nodes: frozenset[str]) -> Decision | None:
    """Return what was planned for a demand; give up the whole plan where its node has no room for the pods any more."""
    decision = plan.get(key)
    if decision is not None and decision.node not in nodes:
        plan.clear()
        return None
    return decision
