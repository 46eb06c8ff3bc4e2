"""Completion in shells: `apportion --show-completion SHELL` prints what a shell reads, or what kubectl asks for its plugin.

In: the name of a shell. Out: a script, which calls the command line with `VARIABLE` set at each completion.
"""

from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined] # not exported

from apportion import __version__

VARIABLE: Final = "_APPORTION_COMPLETE"
"""The environment variable of a run that completes; one for all names of the program, so that `kubectl-apportion` knows it too."""
_PROGRAM: Final = "apportion"
_KUBECTL: Final = f"""\
#!/bin/sh
# kubectl runs this program to complete `kubectl apportion`: one candidate a line, then what else may follow (4: no files; 0: files).
found=$({VARIABLE}=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS="apportion $*" kubectl-apportion)
if [ -n "$found" ]; then printf '%s\\n:4\\n' "$found"; else echo :0; fi"""


class Shell(StrEnum):
    """Who reads the script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def begin() -> None:
    """Let the command line answer completions; before it is run with `VARIABLE` in the environment."""
    completion_init()


def _show(shell: Shell | None) -> None:
    if shell is None:
        return
    if shell is Shell.KUBECTL:
        typer.echo(_KUBECTL)
    else:
        typer.echo(get_completion_script(prog_name=_PROGRAM, complete_var=VARIABLE, shell=shell.value))
    raise typer.Exit


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def options(
    _shell: Annotated[
        Shell | None,
        typer.Option(
            "--show-completion",
            callback=_show,
            is_eager=True,
            help="Print the script that completes commands and options in a shell, and exit (docs/cli.md).",
        ),
    ] = None,
    _version: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version, and exit."),
    ] = False,
) -> None:
    """Take the options of the program itself."""
