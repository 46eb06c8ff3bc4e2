"""Upstream's own test cases as data, and the comparison of our answer with upstream's."""

import json
from collections import Counter
from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.allocator.world import read_world
from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput
from tests.shared import SHARED

FILE = SHARED / "conformance" / "allocator.json"
OPTIONAL = ("DerivedAttributes",)

Answer = dict[str, Any]


def cases() -> list[Any]:
    """Return the cases as pytest parameters, without those that need a feature that is optional here."""
    if not FILE.exists():
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason=f"{FILE.name} is not here"))]
    rows = json.loads(FILE.read_text())["cases"]
    return [
        pytest.param(row, id=row["name"])
        for row in rows
        if not any(row["features"][name] for name in OPTIONAL)
    ]


def answer(case: Answer, strategy: Strategy) -> Answer:
    """Allocate a case; return the outcome in the form of the case's `expect`."""
    world = read_world(case)
    try:
        found = allocate(world.state, world.demand, Terms(strategy))
    except BrokenInput as error:
        return {"kind": "error", "error": {"kind": "fatal", "text": str(error)}}
    if isinstance(found, Decision):
        return {"kind": "results", "results": [one.to_json() for one in found.allocations]}
    if found.verdict == "node":
        return {"kind": "error", "error": {"kind": "node", "text": "invalid resource pools were encountered"}}
    return {"kind": found.verdict}


def differences(case: Answer, given: Answer) -> list[str]:
    """Return the differences from upstream's answer; empty if there are none."""
    expected = case["expect"]
    if expected["kind"] != given["kind"]:
        return [f"expected {expected}, got {given}"]
    if expected["kind"] == "error":
        wrong = expected["error"]["kind"] != given["error"]["kind"]
        return [f"expected {expected['error']}, got {given['error']}"] if wrong else []
    if expected["kind"] == "none":
        return []
    wanted = expected.get("results") or []
    if len(wanted) != len(given["results"]):
        return ["another number of results than claims"]
    found = []
    for number, (left, right) in enumerate(zip(wanted, given["results"], strict=True)):
        for name, (mine, theirs) in _parts(left, right, ordered=case["exactOrder"]).items():
            if mine != theirs:
                found.append(f"claim {number}, {name}: expected {mine}, got {theirs}")
    return found


def _parts(left: Answer, right: Answer, *, ordered: bool) -> dict[str, tuple[object, object]]:
    def results(one: Answer) -> object:
        rows = [_comparable(row) for row in one["devices"].get("results") or []]
        return rows if ordered else Counter(rows)

    def config(one: Answer) -> object:
        return [
            json.dumps({k: v for k, v in entry.items() if v}, sort_keys=True)
            for entry in one["devices"].get("config") or []
        ]

    def selector(one: Answer) -> object:
        terms = (one.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
        return Counter(
            tuple(
                sorted(
                    (kind, r["key"], r["operator"], tuple(sorted(r.get("values") or ())))
                    for kind in ("matchFields", "matchExpressions")
                    for r in term.get(kind) or []
                )
            )
            for term in terms
        )

    return {
        name: (read(left), read(right))
        for name, read in {
            "results": results,
            "config": config,
            "nodeSelector": selector,
            "timestamp": lambda one: one.get("allocationTimestamp"),
        }.items()
    }


def _comparable(row: Answer) -> str:
    kept = {key: value for key, value in row.items() if value}
    if "shareID" in kept:
        kept["shareID"] = "masked"
    if "consumedCapacity" in kept:
        kept["consumedCapacity"] = {
            name: Quantity.parse(amount).nano for name, amount in kept["consumedCapacity"].items()
        }
    return json.dumps(kept, sort_keys=True)
