"""The cases of upstream's own selector tests, recorded as data, with our compiler."""

import pytest

from tests.cel.evaluators import answer, as_device, cost_of, recorded


@pytest.mark.slow
def test_every_stored_expression_of_upstream_gets_upstreams_answer() -> None:
    """Match, no match, compile error or run-time error, with the text that upstream's test asserts."""
    wrong = []
    for row in recorded():
        expected = row["expect"]
        kind, found = answer(row)
        wanted = expected.get(kind)
        right = kind == expected["kind"] and (found is wanted if kind == "match" else wanted in found)
        if not right:
            wrong.append((row["name"], expected, kind, found))
    assert wrong == []


def test_every_evaluation_costs_what_it_costs_upstream() -> None:
    """The cost limit ends the same evaluations as upstream's only if the units are the same."""
    checked, wrong = 0, []
    for row in recorded():
        if row["expect"]["kind"] != "match" or row["actual"].get("cost") is None:
            continue
        found = cost_of(row["expression"], as_device(row))
        checked += 1
        if found != row["actual"]["cost"]:
            wrong.append((row["name"], found, row["actual"]["cost"]))
    if checked < 30:
        pytest.fail("the data names hardly any costs")
    assert wrong == []
