"""Input and output of the commands.

In: a path (`-` for standard input). Out: decoded JSON or YAML, lines, JSON text; a broken input, and output that cannot be written, end the command with one
sentence on standard error and exit status 2.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import yaml
from yaml.constructor import SafeConstructor

from apportion.cli.terminal import visible
from apportion.errors import BrokenInput

BAD_INPUT = 2
"""Exit status for broken input."""
_MOST_VALUES = 10_000_000
"""Of a YAML document; a few lines of aliases stand for more than any memory has."""

Output = Annotated[str, typer.Option("-o", "--output", help="table or json.")]


def require_format(output: str) -> None:
    """End the command unless the output is table or json; `text` is what `table` was called before."""
    if output not in {"table", "json", "text"}:
        raise refuse(f"-o {output}: there are table and json")


def names(values: Iterable[str] | None) -> frozenset[str]:
    """Return the names that an option has, separated by commas or each in an option of its own."""
    return frozenset(name for value in values or () for each in value.split(",") if (name := each.strip()))


def read(file: Path) -> bytes:
    """Return the whole content; ends the command when the file cannot be read."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise refuse(f"{file}: {error.strerror}") from None


def lines(file: Path) -> Iterator[bytes]:
    """Yield the lines that are not empty, as they arrive."""
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as stream:
            yield from (line for line in stream if line.strip())
    except OSError as error:
        raise refuse(f"{file}: {error.strerror}") from None


def load(data: bytes) -> Any:
    """Decode JSON or one document of YAML; raises BrokenInput when it is neither."""
    found = load_all(data)
    if len(found) > 1:
        raise BrokenInput(f"{len(found)} documents, where one is wanted")
    return found[0] if found else None


def load_all(data: bytes) -> list[Any]:
    """Decode JSON, or all documents of YAML that are not empty; raises BrokenInput when it is neither."""
    with suppress(orjson.JSONDecodeError):
        return [orjson.loads(data)]
    if data.lstrip().startswith(b"{"):
        from apportion.cluster.answer import (
            read_json,
        )  # commands that ask no server are there sooner without its client

        # As the API server says it, parameters of claims that are nested thousands of levels deep included.
        with suppress(orjson.JSONDecodeError):
            return [read_json(data)]
    try:
        found = [each for each in yaml.load_all(data, Loader=_LOADER) if each is not None]
        if _values(found, {}) > _MOST_VALUES:
            raise BrokenInput(f"its aliases stand for more than {_MOST_VALUES:,} values")
        return found  # noqa: TRY300 - what is raised before is no error of the parser
    except RecursionError:
        raise BrokenInput("its objects and lists are nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: text that is no UTF-8, or a date that there is not (2026-02-30).
        raise BrokenInput(f"neither JSON nor YAML: {' '.join(str(error).split())[:200]}") from None


def _mapping(loader: Any, node: Any, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - as PyYAML calls it
    """Return an object of YAML with keys that are text, as kubectl makes it: `true: no` has the key "true"."""
    found = SafeConstructor.construct_mapping(loader, node, deep)
    return {key if isinstance(key, str) else _key(key): value for key, value in found.items()}


def _key(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


_LOADER: Any = type(
    "Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"construct_mapping": _mapping}
)
for _tag in ("set", "omap", "pairs", "binary"):
    # JSON cannot say what these are.
    _LOADER.add_constructor(f"tag:yaml.org,2002:{_tag}", SafeConstructor.construct_undefined)


def _values(part: object, known: dict[int, int]) -> int:
    """Count what a document has with every alias written out; raises BrokenInput for one that stands for itself. `known`: by `id`, 0 while it is counted."""
    if not isinstance(part, dict | list):
        return 1
    if id(part) not in known:
        known[id(part)] = 0
        known[id(part)] = 1 + sum(
            _values(each, known) for each in (part.values() if isinstance(part, dict) else part)
        )
    if not known[id(part)]:
        raise BrokenInput("an alias stands for something that it is part of")
    return known[id(part)]


def load_line(line: bytes) -> Any:
    """Decode one line of JSON; raises BrokenInput when it is none."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BrokenInput(f"not JSON: {error}") from None


def write(answer: Mapping[str, Any], *, indent: bool = False) -> None:
    """Write an answer to standard output as JSON."""
    sys.stdout.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2 if indent else 0).decode() + "\n")


def end() -> None:
    """Write what standard output still has; ends the command where nothing can be written there, also if that is what it fails with."""
    try:
        if sys.stdout:  # a daemon may have none
            sys.stdout.flush()
            if isinstance(sys.exc_info()[1], OSError):
                # Without a buffer (PYTHONUNBUFFERED) nothing is left to write, and only one more try says what it was.
                os.write(sys.stdout.fileno(), b"\n")
    except OSError as error:
        # The interpreter tries once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # its reader has seen enough
            raise SystemExit(refuse(f"standard output: {error.strerror}").exit_code) from None


def refuse(message: str) -> typer.Exit:
    """Print an error; the caller raises what this returns."""
    typer.echo(f"error: {visible(message)}", err=True)
    return typer.Exit(BAD_INPUT)
