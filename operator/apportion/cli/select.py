"""`apportion select`: find out which devices a CEL selector matches, without a cluster.

In: an expression and devices as JSON or YAML, or with --jsonl one question a line. Out: match, no match or the
error for each. Exit status: 0 answered, 2 bad input (also an expression that does not compile).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.cel import Program, Programs
from apportion.cli import document
from apportion.cli.terminal import visible
from apportion.dra.device import Device
from apportion.errors import BrokenInput, SelectorError

Answer = dict[str, Any]


def select(
    file: Annotated[
        Path, typer.Option("-f", "--file", help="The devices: a JSON or YAML list; -: standard input.")
    ],
    expression: Annotated[str | None, typer.Option("-e", "--expression", help="The CEL selector.")] = None,
    output: document.Output = "table",
    jsonl: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool,
        typer.Option("--jsonl", help="One device with its expression a line in, one JSON answer a line out."),
    ] = False,
) -> None:
    """Say which devices a CEL selector matches, without a cluster."""
    document.require_format(output)
    if jsonl:
        programs = Programs()
        for line in document.lines(file):
            document.write(_answer_line(line, expression, programs))
        return
    if expression is None:
        raise document.refuse("an expression is missing: give -e EXPRESSION")
    try:
        rows = _rows(document.load(document.read(file)))
    except BrokenInput as error:
        raise document.refuse(str(error)) from None
    program = Programs(1).get(expression)
    if isinstance(program, SelectorError):
        if output == "json":
            document.write({"kind": "compileError", "message": str(program)}, indent=True)
        raise document.refuse(str(program))
    names = [str(row.get("name") or f"#{position}") for position, row in enumerate(rows)]
    answers = [_ask(program, row) for row in rows]
    if output == "json":
        found = [{"device": name, **answer} for name, answer in zip(names, answers, strict=True)]
        document.write({"kind": "results", "devices": found}, indent=True)
    else:
        _show(names, answers)


def _answer_line(line: bytes, expression: str | None, programs: Programs) -> Answer:
    try:
        row = document.load_line(line)
    except BrokenInput as error:
        return {"kind": "error", "message": str(error)}
    if not isinstance(row, Mapping):
        return {"kind": "error", "message": "expected one object a line"}
    text = row.get("expression", expression)
    if not isinstance(text, str):
        return {"kind": "error", "message": "expression: expected a string"}
    program = programs.get(text)
    if isinstance(program, SelectorError):
        return {"kind": "compileError", "message": str(program)}
    return _ask(program, row)


def _ask(program: Program, row: Mapping[str, Any]) -> Answer:
    """Return the answer for one device in the form of the conformance data."""
    try:
        return {"kind": "match", "match": program.match(_device(row))}
    except BrokenInput as error:
        return {"kind": "matchError", "message": str(error)}


def _device(row: Mapping[str, Any]) -> Device:
    """Read a device, whose name may be missing; an attribute without a value is an error, as upstream."""
    driver = row.get("driver") or ""
    if not isinstance(driver, str):
        raise BrokenInput("expected a string", field="driver")
    raw = {"name": "device", **{key: value for key, value in row.items() if value is not None}}
    device = Device.from_json(raw, driver=driver, pool="")
    if device.unsupported:
        raise BrokenInput(f"CEL runtime error: attribute {device.unsupported[0]}")
    return device


def _rows(raw: Any) -> list[Mapping[str, Any]]:
    """Return the devices of a list, of an object with `devices`, or of a ResourceSlice."""
    driver: dict[str, Any] = {}
    if isinstance(raw, Mapping):
        spec = raw.get("spec")
        holder = spec if isinstance(spec, Mapping) else raw
        driver = {"driver": holder["driver"]} if "driver" in holder else {}
        raw = holder.get("devices")
    if not isinstance(raw, list) or not all(isinstance(row, Mapping) for row in raw):
        raise BrokenInput("expected a list of objects with driver, attributes and capacity", field="devices")
    return [{**driver, **row} for row in raw]


def _show(names: list[str], answers: list[Answer]) -> None:
    table = Table("device", "verdict", "why", box=None)
    for name, answer in zip(names, answers, strict=True):
        if answer["kind"] == "match":
            table.add_row(escape(visible(name)), "[green]match[/]" if answer["match"] else "no match", "")
        else:
            table.add_row(escape(visible(name)), "[red]error[/]", escape(visible(answer["message"])))
    Console().print(table)
