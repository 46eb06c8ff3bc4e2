"""Selectors compared with cel-go in upstream's environment, on random expressions."""

import pytest

from tests.cel.evaluators import answer
from tests.upstream.expressions import selector_and_device
from tests.upstream.oracle import Oracle

SELECTORS = 2500


@pytest.mark.slow
def test_selectors_mean_what_they_mean_upstream(oracle: Oracle) -> None:
    """Match, no match, compile error or evaluation error; all libraries, all types of values."""
    rows = [selector_and_device(seed) for seed in range(SELECTORS)]
    kinds, wrong = set(), {}
    for row, upstream in zip(rows, oracle.ask(rows), strict=True):
        expected = {"kind": upstream["kind"]}
        if upstream["kind"] == "match":
            expected["match"] = upstream.get("match", False)
        kinds.add(upstream["kind"])
        kind, verdict = answer(row)
        found = {"kind": kind, "match": verdict} if kind == "match" else {"kind": kind}
        if found != expected:
            wrong[row["expression"]] = (expected, found, row)
    assert wrong == {}
    assert kinds == {"match", "matchError", "compileError"}
