"""Claims that wait together, as the operator places them: the last ones together.

In: a scenario's events. Out: where the last claims before the next release begin, and answers for them.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.batch import Answer
from apportion.allocator.demand import Demand
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.state import State
from apportion.dra.claim import Claim
from apportion.scheduling.batch import MOST_TOGETHER, together


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


def plan(state: State, claims: Sequence[Claim], strategy: Strategy) -> dict[str, Answer]:
    """Return answers by name; raises BrokenInput."""
    answers = together(state, [Demand((claim,)) for claim in claims], strategy=strategy)
    return dict(zip([claim.name for claim in claims], answers, strict=True))
