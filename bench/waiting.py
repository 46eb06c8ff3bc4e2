"""Claims that wait together, as the operator places them: the last ones together.

In: a scenario's events. Out: where the last claims before the next release begin, and answers for them.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.allocator.demand import Demand
from apportion.allocator.queue import Answer, allocate_queue
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling.planner import LEAST_TOGETHER, MOST_TOGETHER


class Spent(NamedTuple):
    """Time that went to a plan."""

    ms: float = 0.0
    cpu_ms: float = 0.0


def last(claims: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return by the first of them the claims that are placed together. `claims`: all that wait, the empty name: a release."""
    found: dict[str, Sequence[str]] = {}
    waiting: list[str] = []
    for name in (*claims, ""):
        if name:
            waiting.append(name)
            continue
        rest = waiting[-MOST_TOGETHER:]
        if len(rest) >= LEAST_TOGETHER:
            found[rest[0]] = rest
        waiting = []
    return found


def plan(state: State, claims: Sequence[Claim], strategy: Strategy) -> tuple[Mapping[str, Answer], Spent]:
    """Return answers by name; a claim that no state could serve has none."""
    cpu, began = time.thread_time(), time.perf_counter()
    answers = allocate_queue(state, [Demand((claim,)) for claim in claims], Terms(strategy))
    spent = Spent((time.perf_counter() - began) * 1000, (time.thread_time() - cpu) * 1000)
    found = {
        claim.name: answer
        for claim, answer in zip(claims, answers, strict=True)
        if not isinstance(answer, BrokenInput)
    }
    return found, spent
