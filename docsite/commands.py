"""The page of all commands. In: the command line (typer). Out: one page: each command, its arguments and options."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from apportion.__main__ import app
from apportion.cli.deferred import Deferred
from docsite.page import Page, cell

_PROGRAM = "apportion"


def page() -> Page:
    """Return the page of all commands."""
    text = [
        "# All commands and options",
        "Made from the command line itself, as `--help` is. What the commands for people answer is in [Commands](../cli.md).",
    ]
    for words, command in commands():
        text += [f"## {' '.join(words)}", " ".join(str(command.help or "").split())]
        rows = [_row(each) for each in command.params if not getattr(each, "hidden", False)]
        if rows:
            text.append("\n".join(("| | default | meaning |", "|---|---|---|", *rows)))
    return Page("reference/commands.md", "All commands and options", "\n\n".join(text) + "\n")


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command that does something or has options of its own, with the words that call it."""
    yield from _below((_PROGRAM,), typer.main.get_command(app))


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command.load() if isinstance(command, Deferred) else command
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    if not inner or command.params:
        yield words, command
    for name in sorted(inner):
        yield from _below((*words, name), inner[name])


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    name = (
        ", ".join((*parameter.opts, *parameter.secondary_opts))
        if is_option
        else (parameter.metavar or parameter.name.upper())
    )
    default = (
        ""
        if callable(parameter.default) or parameter.default in (None, (), [], "", False)
        else f"`{parameter.default}`"
    )
    if parameter.required:
        default = "must be there"
    text = getattr(parameter, "help", None) or ""
    variable = parameter.envvar
    if variable:
        text += f" (environment: `{variable if isinstance(variable, str) else ', '.join(variable)}`)"
    return f"| `{name}` | {default} | {cell(text)} |"
