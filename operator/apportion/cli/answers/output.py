"""What a command found, as a table, JSON, YAML or names.

In: plain data, names, a function that draws tables. Out: text on standard output, without colour where that is no terminal or NO_COLOR
is set (rich sees to it), and readable at 80 columns: long cells are folded, never cut.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import orjson
import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.cli import document
from apportion.cli.terminal import visible

FORMATS = ("table", "json", "yaml", "name")
NOT_SERVED = 1
"""Exit status where nothing fits, or what was asked about is not there."""

Output: TypeAlias = Annotated[str, typer.Option("-o", "--output", help=f"{', '.join(FORMATS)}.")]


def require_format(output: str) -> None:
    """End the command unless the output is one of the formats."""
    if output not in FORMATS:
        raise document.refuse(f"-o {output}: there are {', '.join(FORMATS)}")


def show(
    output: str, found: Mapping[str, Any], names: Iterable[str], draw: Callable[[Console], None]
) -> None:
    """Write what was found in the format."""
    if output == "json":
        sys.stdout.write(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n")
    elif output == "yaml":
        # orjson turns tuples and other types into what YAML knows.
        sys.stdout.write(yaml.safe_dump(orjson.loads(orjson.dumps(found)), sort_keys=False))
    elif output == "name":
        for name in names:
            sys.stdout.write(f"{name}\n")
    else:
        draw(Console(soft_wrap=False, highlight=False))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()) -> Table:
    """Return a table; the columns in `numbers` are aligned to the right."""
    right = {*numbers}
    made = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        made.add_column(header, overflow="fold", justify="right" if header in right else "left")
    for row in rows:
        made.add_row(*(escape(visible(str(cell))) for cell in row))
    return made


def say(console: Console, text: str) -> None:
    """Write a sentence, wrapped between words at the width of the terminal."""
    console.print(escape(visible(text)))
