"""The end of a filling cluster: what is the best that can be had, and what ours makes of it."""

import re
from itertools import product

import pytest

from bench.optimum import Optimum, State, after, choices
from tests.bench.test_scenario import bench
from tests.shared import shared

SIZES = {1: 0.5, 2: 0.3, 4: 0.2}
MODELS = {(0,): 0.4, (1,): 0.1, (0, 1): 0.5}


def test_the_last_device_is_lost_to_whoever_cannot_use_it() -> None:
    """By hand: one device of the first model is no use to a tenth of the claims, one of the second to four tenths."""
    best = Optimum(SIZES, MODELS)
    assert best.losses(((1,), ()), 1) == pytest.approx(0.1)
    assert best.losses(((), (1,)), 1) == pytest.approx(0.4)
    assert best.regret(((1,), (1,)), 2, 1, (0, 1), (0, 1)) == pytest.approx(0.3)
    assert best.regret(((1,), (1,)), 2, 1, (0, 1), (1, 1)) == 0


@pytest.mark.parametrize("state", [((3,), (2,)), ((2, 1), (2,)), ((4,), (1,)), ((1, 1, 1), (1, 1))])
def test_the_best_is_what_trying_every_plan_finds(state: State) -> None:
    """A plan says where each of the claims goes that may come next; every plan is played through to the end."""
    best = Optimum(SIZES, MODELS)
    assert best.losses(state, 5) == pytest.approx(tried(state, 5))


def test_figures_are_told_for_a_small_cluster() -> None:
    """Unplaced claims, their spread, and what the best choices would have saved."""
    shared("peer/scenarios.py")
    done = bench("bench.endgame", "--seeds", "1-6", "--nodes", "10", "--last", "12")
    assert done.returncode == 0, done.stderr
    assert "(6 seeds)" in done.stdout
    saved = re.search(r"the best would leave ([\d.]+) claims", done.stdout)
    assert saved is not None
    assert 0 <= float(saved[1]) < 0.5


def test_seeds_that_are_none_are_refused_in_words() -> None:
    """No stack trace."""
    done = bench("bench.endgame", "--seeds", "many")
    assert done.returncode == 2
    assert "--seeds many: expected two numbers" in done.stdout


def tried(state: State, coming: int) -> float:
    """Return the least expected losses over all plans, without remembering anything."""
    if not coming:
        return 0.0
    asks = list(product(SIZES.items(), MODELS.items()))
    total = 0.0
    for (size, chance), (models, part) in asks:
        count = min(size, coming)
        ways = [tried(after(state, one, count), coming - count) for one in choices(state, count, models)]
        total += chance * part * (min(ways) if ways else 1 + tried(state, coming - count))
    return total
