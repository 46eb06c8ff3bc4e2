"""`python -m bench.million`."""

import gc

import pytest

from bench.million import measure
from tests.shared import shared


@pytest.mark.slow
def test_two_nodes_have_every_figure() -> None:
    """Eight GPUs with 26 devices each; every claim is allocated."""
    shared("peer/scenarios.py")
    thresholds = gc.get_threshold()
    found = measure(2, 0.5, 1, unshared=False)
    assert found["placements"] == 2 * 8 * 26
    assert found["unplaced"] == 0
    assert found["claims"] > 0
    assert set(found["spent"]) == {"read", "state", "views", "collect"}
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
