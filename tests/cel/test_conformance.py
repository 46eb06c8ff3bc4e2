"""Upstream's own table for selectors, recorded as data, against our compiler."""

from typing import Any

import orjson
import pytest

from apportion.cel import compile_selector
from apportion.cel.check import check
from apportion.cel.facts import facts
from apportion.cel.parse import parse
from apportion.cel.precise import cost_of
from apportion.dra.device import Device
from apportion.errors import SelectorError
from tests.shared import shared


def rows() -> list[dict[str, Any]]:
    """Return the rows that a scheduler must satisfy."""
    cases = orjson.loads(shared("conformance/cel.json").read_bytes())["cases"]
    return [row for row in cases if row["envType"] == "StoredExpressions"]


def as_device(row: dict[str, Any]) -> Device:
    """Return the row's device."""
    fields = ("attributes", "capacity", "allowMultipleAllocations")
    raw = {"name": "d", **{key: row[key] for key in fields if row[key] is not None}}
    return Device.from_json(raw, driver=row["driver"], pool="pool")


def answer(row: dict[str, Any]) -> tuple[str, Any]:
    """Return what we say: the kind of outcome, and the verdict or the error's text."""
    try:
        program = compile_selector(row["expression"])
    except SelectorError as error:
        return "compileError", str(error)
    try:
        return "match", program.match(as_device(row))
    except SelectorError as error:
        return "matchError", str(error)


def test_every_stored_expression_of_upstream_gets_upstreams_answer() -> None:
    """Match, no match, compile error or run-time error, with the text that upstream's test asserts."""
    wrong = []
    for row in rows():
        expected = row["expect"]
        kind, found = answer(row)
        wanted = expected.get(kind)
        right = kind == expected["kind"] and (found is wanted if kind == "match" else wanted in found)
        if not right:
            wrong.append((row["name"], expected, kind, found))
    assert wrong == []


def test_every_evaluation_costs_what_it_costs_upstream() -> None:
    """The budget ends the same evaluations as upstream's only if the units are the same."""
    checked, wrong = 0, []
    for row in rows():
        if row["expect"]["kind"] != "match" or row["actual"].get("cost") is None:
            continue
        text = row["expression"]
        found = cost_of(check(text, parse(text)), facts(as_device(row)).value)
        checked += 1
        if found != row["actual"]["cost"]:
            wrong.append((row["name"], found, row["actual"]["cost"]))
    if checked < 50:
        pytest.fail("the data names hardly any costs")
    assert wrong == []
