"""Demands that wait together and are placed together.

In: what a batch answered. Out: a plan to follow one decision at a time, as long as the nodes still have the room.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.batch import Answer, allocate_batch
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.ladder.ladder import Ladder
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.state import State
from apportion.allocator.worth.mix import Mix
from apportion.dra.device import DeviceId

MOST_TOGETHER = 32
"""Demands placed as one batch: the last of those that wait. Whoever comes before them gets the best place for itself."""


def together(
    state: State,
    demands: Sequence[Demand],
    *,
    strategy: Strategy,
    prefer: Mapping[DeviceId, int] | None = None,
    mix: Mix | None = None,
    ladder: Ladder | None = None,
) -> tuple[Answer, ...]:
    """Answer demands of a queue together, in a time that a pass can bear; raises BrokenInput as `allocate_batch` does."""
    return allocate_batch(
        state,
        demands,
        strategy=strategy,
        prefer=prefer,
        mix=mix,
        ladder=ladder,
        orders=2,
        tries=0,
        queued=True,
    )


def planned(plan: dict[str, Answer], key: str, nodes: frozenset[str]) -> Answer | None:
    """Return what was planned for a demand; give up the whole plan where its node has no room for the pods any more."""
    answer = plan.get(key)
    if isinstance(answer, Decision) and answer.node not in nodes:
        plan.clear()
        return None
    return answer
