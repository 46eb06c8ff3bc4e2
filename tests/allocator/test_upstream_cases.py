"""The allocator answers as upstream's does, case by case."""

import copy
from typing import Any

import pytest

from apportion.allocator.score.strategy import Strategy
from tests.allocator.conformance import answer, cases, differences


@pytest.mark.parametrize("case", cases())
def test_first_fit_chooses_what_upstream_chooses(case: dict[str, Any]) -> None:
    """Same verdict, same devices, same config and node selector; the input stays as it was."""
    before = copy.deepcopy(case)

    given = answer(case, Strategy.FIRST_FIT)

    assert differences(case, given) == []
    assert case == before
