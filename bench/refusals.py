"""How a benchmark ends when something is refused: one line for a person, exit status 2, no traceback.

In: errors, also in groups. Out: a message and `typer.Exit`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from apportion.errors import ApportionError
from bench.options import BAD_INPUT
from testbed.errors import TestbedError

_KINDS = (ApportionError, TestbedError, TimeoutError, typer.BadParameter)


@contextmanager
def refusals(console: Console) -> Iterator[None]:
    """Print what is refused in the body; other errors go on."""
    try:
        yield
    except _KINDS as error:
        raise _refused(console, error) from None
    except ExceptionGroup as group:
        found, others = group.split(_KINDS)
        if found is None or others is not None:
            raise
        raise _refused(console, _first(found)) from None


def _first(error: Exception) -> Exception:
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def _refused(console: Console, error: Exception) -> typer.Exit:
    text = str(error) or "not within the limit of time"
    console.print(f"[red]error:[/] {text}", highlight=False, soft_wrap=True)
    return typer.Exit(BAD_INPUT)
