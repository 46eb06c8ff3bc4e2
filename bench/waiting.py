"""Claims that wait together, as the operator places them: the last ones together.

In: a scenario's events. Out: where the last claims before the next release begin, and answers for them.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.batch import Answer, allocate_batch
from apportion.allocator.demand import Demand
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.state import State
from apportion.dra.claim import Claim
from apportion.scheduling.batch import MOST_TOGETHER


def last(claims: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return by the first of them the claims that are placed together. `claims`: all that wait, the empty name: a release."""
    found: dict[str, Sequence[str]] = {}
    waiting: list[str] = []
    for name in (*claims, ""):
        if name:
            waiting.append(name)
        elif waiting:
            rest = waiting[-MOST_TOGETHER:]
            found[rest[0]] = rest
            waiting = []
    return found


def together(state: State, claims: Sequence[Claim], strategy: Strategy) -> dict[str, Answer]:
    """Return answers by name; raises BrokenInput."""
    answers = allocate_batch(
        state, [Demand((claim,)) for claim in claims], strategy=strategy, orders=2, tries=0, queued=True
    )
    return dict(zip([claim.name for claim in claims], answers, strict=True))
