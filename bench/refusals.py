"""How every benchmark ends when something is refused: one sentence on standard error and exit status 2, no traceback.

In: the function of a command line, what it raises. Out: a message and `typer.Exit`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import typer

from apportion.errors import ApportionError
from bench.options import BAD_INPUT
from testbed.errors import TestbedError

_KINDS = (ApportionError, TestbedError, TimeoutError, typer.BadParameter)
_FILES = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def run_command(main: Callable[..., None]) -> None:
    """Run the command line of a benchmark. What is refused anywhere in it ends it with one sentence; other errors are defects, and go on."""

    @wraps(main)
    def refusing(*arguments: Any, **options: Any) -> None:
        with _refusals():
            main(*arguments, **options)

    typer.run(refusing)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, ExceptionGroup):
            found, others = error.split(_is_refused)
            if found is None or others is not None:
                raise
            error = _first(found)
        elif not _is_refused(error):
            raise
        typer.echo(f"error: {_text(error)}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def _is_refused(error: Exception) -> bool:
    return isinstance(error, _KINDS) or (isinstance(error, _FILES) and error.filename is not None)


def _first(error: Exception) -> Exception:
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "not within the limit of time"
