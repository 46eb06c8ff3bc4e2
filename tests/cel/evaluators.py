"""What a selector gives: by both evaluators, with its costs, and for the rows of the recorded table."""

from typing import Any

import orjson

from apportion.cel import Program, compile_selector
from apportion.cel.check.checker import check
from apportion.cel.evaluate.closures import Run
from apportion.cel.evaluate.device import cel_device
from apportion.cel.evaluate.precise import closure_of
from apportion.cel.syntax.parse import parse
from apportion.dra.device import Device
from apportion.errors import SelectorError
from tests.shared import shared


def recorded() -> list[dict[str, Any]]:
    """Return the rows of the recorded table that a scheduler must satisfy; of those that differ in upstream's feature gates alone, one."""
    cases = orjson.loads(shared("conformance/cel.json").read_bytes())["cases"]
    found: dict[bytes, dict[str, Any]] = {}
    for row in cases:
        if row["envType"] == "StoredExpressions":
            same = {key: value for key, value in row.items() if key not in {"name", "features"}}
            found.setdefault(orjson.dumps(same, option=orjson.OPT_SORT_KEYS), row)
    return [*found.values()]


def as_device(row: dict[str, Any]) -> Device:
    """Return the device of a row."""
    fields = ("attributes", "capacity", "allowMultipleAllocations")
    raw = {"name": "d", **{key: row[key] for key in fields if row[key] is not None}}
    return Device.from_json(raw, driver=row["driver"], pool="pool")


def answer(row: dict[str, Any]) -> tuple[str, Any]:
    """Return what we say of a row: the kind of outcome, and the verdict or the error's text."""
    try:
        program = compile_selector(row["expression"])
    except SelectorError as error:
        return "compileError", str(error)
    found = verdict(program, as_device(row), precisely=False)
    return ("matchError" if isinstance(found, str) else "match"), found


def verdict(program: Program, device: Device, *, precisely: bool) -> bool | str:
    """Return match, no match, or the text of the error."""
    try:
        return program.match_precisely(device) if precisely else program.match(device)
    except SelectorError as error:
        return str(error)


def cost_of(text: str, device: Device) -> int:
    """Return the cost units of one evaluation."""
    evaluate, slots = closure_of(check(text, parse(text)))
    run = Run(cel_device(device).value, slots)
    evaluate(run)
    return run.cost


def is_fast(program: Program) -> bool:
    """Say whether the selector has a fast form."""
    return program._fast is not None
