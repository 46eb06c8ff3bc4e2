"""Selectors against cel-go with upstream's environment, on expressions that nobody wrote down."""

from tests.cel.evaluators import answer
from tests.upstream.expressions import question
from tests.upstream.oracle import Oracle

SELECTORS = 2500


def test_selectors_mean_what_they_mean_upstream(oracle: Oracle) -> None:
    """Match, no match, an error when compiled or an error when asked: all libraries, all kinds of values."""
    rows = [question(seed) for seed in range(SELECTORS)]
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
