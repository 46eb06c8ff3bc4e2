"""Selectors against cel-go with upstream's environment, on expressions that nobody wrote down."""

from apportion.cel import compile_selector
from apportion.errors import SelectorError
from tests.cel.test_conformance import as_device
from tests.upstream.expressions import question
from tests.upstream.oracle import Json, Oracle

SELECTORS = 2500


def _answer(row: Json) -> Json:
    try:
        program = compile_selector(row["expression"])
    except SelectorError:
        return {"kind": "compileError"}
    try:
        return {"kind": "match", "match": program.match(as_device(row))}
    except SelectorError:
        return {"kind": "matchError"}


def test_selectors_mean_what_they_mean_upstream(oracle: Oracle) -> None:
    """Match, no match, an error when compiled or an error when asked: all libraries, all kinds of values."""
    rows = [question(seed) for seed in range(SELECTORS)]
    kinds, wrong = set(), {}
    for row, upstream in zip(rows, oracle.ask(rows), strict=True):
        expected = {"kind": upstream["kind"]}
        if upstream["kind"] == "match":
            expected["match"] = upstream.get("match", False)
        kinds.add(upstream["kind"])
        found = _answer(row)
        if found != expected:
            wrong[row["expression"]] = (expected, found, row)
    assert wrong == {}
    assert kinds == {"match", "matchError", "compileError"}
