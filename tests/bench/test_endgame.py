"""`python -m bench.endgame` and the optimum it compares with."""

import re
from itertools import product

import pytest

from bench.optimum import Optimum, State, after, choices
from tests.bench.running import program
from tests.shared import shared

SIZES = {1: 0.5, 2: 0.3, 4: 0.2}
MODELS = {(0,): 0.4, (1,): 0.1, (0, 1): 0.5}


def test_the_expected_losses_of_one_device_are_those_by_hand() -> None:
    """A tenth of the claims cannot use a device of the first model, four tenths none of the second."""
    best = Optimum(SIZES, MODELS)
    assert best.losses(((1,), ()), 1) == pytest.approx(0.1)
    assert best.losses(((), (1,)), 1) == pytest.approx(0.4)
    assert best.regret(((1,), (1,)), 2, 1, (0, 1), (0, 1)) == pytest.approx(0.3)
    assert best.regret(((1,), (1,)), 2, 1, (0, 1), (1, 1)) == 0


@pytest.mark.parametrize("state", [((3,), (2,)), ((2, 1), (2,)), ((4,), (1,)), ((1, 1, 1), (1, 1))])
def test_the_optimum_is_that_of_trying_every_plan(state: State) -> None:
    """A plan has a choice for every possible next claim; every plan is followed to the end."""
    best = Optimum(SIZES, MODELS)
    assert best.losses(state, 5) == pytest.approx(tried(state, 5))


@pytest.mark.slow
def test_a_small_cluster_has_all_figures() -> None:
    """Unplaced claims, their spread, and what the optimum would have saved."""
    shared("peer/scenarios.py")
    done = program("bench.endgame", "--seeds", "1-6", "--nodes", "10", "--last", "12")
    assert done.returncode == 0, done.stderr
    assert "(6 seeds)" in done.stdout
    saved = re.search(r"the best would leave ([\d.]+) claims", done.stdout)
    assert saved is not None
    assert 0 <= float(saved[1]) < 0.5


@pytest.mark.slow
def test_malformed_seeds_are_refused_with_a_message() -> None:
    """One line, no traceback."""
    done = program("bench.endgame", "--seeds", "many")
    assert done.returncode == 2
    assert "--seeds many: expected two numbers" in done.stderr


def tried(state: State, coming: int) -> float:
    """Return the least expected losses over all plans, without a cache."""
    if not coming:
        return 0.0
    claims = list(product(SIZES.items(), MODELS.items()))
    total = 0.0
    for (size, chance), (models, fraction) in claims:
        count = min(size, coming)
        outcomes = [tried(after(state, one, count), coming - count) for one in choices(state, count, models)]
        total += chance * fraction * (min(outcomes) if outcomes else 1 + tried(state, coming - count))
    return total
