"""The allocator answers like upstream's, case by case."""

import copy
from typing import Any

import pytest

from apportion.allocator.search.scorer import Strategy
from tests.allocator.conformance import answer, cases, differences
from tests.allocator.validity import served_requests, violations


@pytest.mark.parametrize("case", cases())
def test_first_fit_chooses_the_devices_that_upstream_chooses(case: dict[str, Any]) -> None:
    """Equal verdict, devices, config and node selector; the input is unchanged."""
    before = copy.deepcopy(case)

    given = answer(case, Strategy.FIRST_FIT)

    assert differences(case, given) == []
    assert case == before


@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.SPREAD, Strategy.LEAST_FRAGMENTATION])
@pytest.mark.parametrize("case", cases())
def test_scoring_keeps_upstreams_verdicts_and_gives_legal_answers(
    case: dict[str, Any], strategy: Strategy
) -> None:
    """Errors stay errors, results are legal, and the alternatives are upstream's."""
    given = answer(case, strategy)

    assert given["kind"] == case["expect"]["kind"]
    if given["kind"] == "error":
        assert given["error"]["kind"] == case["expect"]["error"]["kind"]
    if given["kind"] == "results":
        assert violations(case, given["results"]) == []
        assert served_requests(given["results"]) == served_requests(case["expect"].get("results") or [])
        if case["compareConfig"]:
            assert differences(case, given) == []
