"""The reference packer against an exact solver."""

from collections.abc import Sequence
from typing import Any

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from tests.allocator.builders import instance
from tests.allocator.exactsolver import optimum
from tests.allocator.referencepacker import allocate_batch


def test_a_batch_is_within_a_hundredth_of_what_an_exact_solver_serves() -> None:
    """Sixty small clusters, some asked for more than they have: claims served, over all of them."""
    best = ours = 0
    for seed in range(60):
        state, demands = instance(seed)
        best += optimum(state, demands)
        ours += served(state, demands)
    assert best * 0.99 <= ours <= best


def served(state: State, demands: Sequence[Demand]) -> int:
    """Return how many claims of the batch get a place, and check that they fit beside each other."""
    answers = allocate_batch(state, demands)
    held: set[Any] = set()
    used: dict[Any, int] = {}
    for answer in answers:
        if isinstance(answer, Decision):
            (result,) = answer.allocations[0].results
            assert result.device not in held
            held.add(result.device)
            view = state.view(answer.node)
            index = next(i for i in range(len(view.devices)) if view.id_of(i) == result.device)
            number, local = view.group_of[index]
            for counter, amount in view.groups[number].group_type.needs[local]:
                used[answer.node, number, counter] = used.get((answer.node, number, counter), 0) + amount
                assert used[answer.node, number, counter] <= view.groups[number].totals[counter]
    return len(held)
