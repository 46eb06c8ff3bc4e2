"""`apportion select`: ask a CEL selector which devices it matches, offline, without a cluster.

In: an expression and devices as JSON or YAML, or with --jsonl one question a line. Out: match, no match or the
error for each. Exit status: 0 answered, 2 bad input (also an expression that does not compile).
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.cel import Program, Programs
from apportion.dra.device import Device
from apportion.errors import BrokenInput, SelectorError

BAD_INPUT = 2
Answer = dict[str, Any]


def select(
    file: Annotated[
        Path, typer.Option("-f", "--file", help="The devices: a JSON or YAML list; - reads standard input.")
    ],
    expression: Annotated[str | None, typer.Option("-e", "--expression", help="The CEL selector.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="text or json.")] = "text",
    jsonl: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool,
        typer.Option("--jsonl", help="One device with its expression a line in, one JSON answer a line out."),
    ] = False,
) -> None:
    """Say which devices a CEL selector matches, without a cluster."""
    if output not in {"text", "json"}:
        raise _refuse(f"-o {output}: there are text and json")
    if jsonl:
        programs = Programs()
        for line in _lines(file):
            sys.stdout.write(_dump(_answer_line(line, expression, programs)) + "\n")
        return
    if expression is None:
        raise _refuse("an expression is missing: give -e EXPRESSION")
    try:
        rows = _rows(_load(_read(file)))
    except BrokenInput as error:
        raise _refuse(str(error)) from None
    program = Programs(1).get(expression)
    if isinstance(program, SelectorError):
        if output == "json":
            sys.stdout.write(_dump({"kind": "compileError", "message": str(program)}, indent=True) + "\n")
        raise _refuse(str(program))
    names = [str(row.get("name") or f"#{position}") for position, row in enumerate(rows)]
    answers = [_ask(program, row) for row in rows]
    if output == "json":
        found = [{"device": name, **answer} for name, answer in zip(names, answers, strict=True)]
        sys.stdout.write(_dump({"kind": "results", "devices": found}, indent=True) + "\n")
    else:
        _show(names, answers)


def _answer_line(line: bytes, expression: str | None, programs: Programs) -> Answer:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return {"kind": "error", "message": f"not JSON: {error}"}
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
    """Return the answer for one device, as the conformance data writes it."""
    try:
        return {"kind": "match", "match": program.match(_device(row))}
    except BrokenInput as error:
        return {"kind": "matchError", "message": str(error)}


def _device(row: Mapping[str, Any]) -> Device:
    """Read a device, which may lack a name; an attribute without a value is an error, as it is upstream."""
    driver = row.get("driver") or ""
    if not isinstance(driver, str):
        raise BrokenInput("expected a string", field="driver")
    raw = {"name": "device", **{key: value for key, value in row.items() if value is not None}}
    device = Device.from_json(raw, driver=driver, pool="")
    if device.unsupported:
        raise BrokenInput(
            f"CEL runtime error: attribute {device.unsupported[0]}: unsupported attribute value"
        )
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


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise _refuse(f"{file}: {error.strerror}") from None


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as stream:
            yield from (line for line in stream if line.strip())
    except OSError as error:
        raise _refuse(f"{file}: {error.strerror}") from None


def _load(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BrokenInput(f"neither JSON nor YAML: {str(error).splitlines()[0]}") from None


def _dump(answer: Answer, *, indent: bool = False) -> str:
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2 if indent else 0).decode()


def _show(names: list[str], answers: list[Answer]) -> None:
    table = Table("device", "verdict", "why", box=None)
    for name, answer in zip(names, answers, strict=True):
        if answer["kind"] == "match":
            table.add_row(escape(name), "[green]match[/]" if answer["match"] else "no match", "")
        else:
            table.add_row(escape(name), "[red]error[/]", escape(answer["message"]))
    Console().print(table)


def _refuse(reason: str) -> typer.Exit:
    Console(stderr=True).print(f"apportion select: {escape(reason)}", soft_wrap=True, highlight=False)
    return typer.Exit(BAD_INPUT)
