"""Claims that wait together: the last of a queue are planned together, as by the operator (ADR 0011).

In: a scenario's claims in order of arrival. Out: which of them are planned together, and the answers of the plan.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from apportion.allocator.demand import Demand
from apportion.allocator.queue import LEAST_TOGETHER, MOST_TOGETHER, Answer, allocate_queue
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput


class Spent(NamedTuple):
    """Time a plan took."""

    ms: float = 0.0
    cpu_ms: float = 0.0


def planned_together(claims: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the claims of each plan by its first claim. `claims`: names in order of arrival; an empty name is a release."""
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
    """Return the answers by claim name, and the time; a claim that no state could serve has no answer."""
    cpu, began = time.thread_time(), time.perf_counter()
    answers = allocate_queue(state, [Demand((claim,)) for claim in claims], Terms(strategy))
    spent = Spent((time.perf_counter() - began) * 1000, (time.thread_time() - cpu) * 1000)
    found = {
        claim.name: answer
        for claim, answer in zip(claims, answers, strict=True)
        if not isinstance(answer, BrokenInput)
    }
    return found, spent
