"""The reference packer compared with an exact solver."""

from collections.abc import Sequence
from typing import Any

import pytest

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from tests.allocator.builders import packing_instance
from tests.allocator.exactsolver import most_served
from tests.allocator.referencepacker import pack_with_swaps


@pytest.mark.slow
def test_the_reference_packer_serves_99_of_100_claims_that_an_exact_solver_serves() -> None:
    """Sixty small clusters, some of them short: claims served, summed over all."""
    best = ours = 0
    for seed in range(60):
        state, demands = packing_instance(seed)
        best += most_served(state, demands)
        ours += served(state, demands)
    assert best * 0.99 <= ours <= best


def served(state: State, demands: Sequence[Demand]) -> int:
    """Return the number of claims served, after checking that no device and no counter is overcommitted."""
    answers = pack_with_swaps(state, demands)
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
