"""The allocator answers as upstream's does, case by case."""

import copy
from typing import Any

import pytest

from apportion.allocator.search.scorer import Strategy
from tests.allocator.conformance import answer, cases, differences
from tests.allocator.validity import complaints, ranks


@pytest.mark.parametrize("case", cases())
def test_first_fit_chooses_what_upstream_chooses(case: dict[str, Any]) -> None:
    """Same verdict, same devices, same config and node selector; the input stays as it was."""
    before = copy.deepcopy(case)

    given = answer(case, Strategy.FIRST_FIT)

    assert differences(case, given) == []
    assert case == before


@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.SPREAD, Strategy.LEAST_FRAGMENTATION])
@pytest.mark.parametrize("case", cases())
def test_scoring_keeps_every_verdict_and_gives_a_legal_answer(
    case: dict[str, Any], strategy: Strategy
) -> None:
    """Solvable stays solvable, errors stay errors; the independent judge finds nothing wrong; the same alternatives win."""
    given = answer(case, strategy)

    assert given["kind"] == case["expect"]["kind"]
    if given["kind"] == "error":
        assert given["error"]["kind"] == case["expect"]["error"]["kind"]
    if given["kind"] == "results":
        assert complaints(case, given["results"]) == []
        assert ranks(given["results"]) == ranks(case["expect"].get("results") or [])
        if case["compareConfig"]:
            assert differences(case, given) == []
