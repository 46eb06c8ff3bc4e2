"""What restarts cost, by hand."""

import pytest

from apportion.allocator.defrag.restartcost import MOST_WEIGHT, START, restart_cost


@pytest.mark.parametrize(
    ("pods", "priority", "age", "declared", "cost"),
    [
        (1, 0, 0, None, START),
        (1, 0, 3600, None, START + 3600),
        (3, 0, 40, None, 3 * (START + 40)),
        (1, -5, 40, None, START + 40),
        (1, 1, 40, None, 2 * (START + 40)),
        (1, 1000, 40, None, 11 * (START + 40)),
        (1, 0, 1800, 3600, 2 * (START + 1800)),
        (1, 0, 3599, 3600, MOST_WEIGHT * (START + 3599)),
        (1, 0, 3600, 3600, START + 3600),
        (1, 0, -10, None, START),
    ],
)
def test_a_restart_costs_lost_work(
    pods: int, priority: int, age: float, declared: float | None, cost: int
) -> None:
    """Seconds, more for priority and for little that is still to come; who runs longer than declared has declared nothing."""
    assert restart_cost(pods, priority, age, declared) == cost
