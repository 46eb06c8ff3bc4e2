"""Parts of the command line that several benchmarks share: the exit status of bad input, seeds, the console."""

from rich.console import Console

from apportion.errors import BrokenInput

BAD_INPUT = 2
"""Exit status for input that is refused."""
WIDTH = 130
"""Columns of a table if the output is no terminal."""


def parse_seeds(text: str) -> range:
    """Read FIRST-LAST or one number; raises BrokenInput."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        raise BrokenInput(f"--seeds {text}: expected two numbers, as in 1-5")
    return range(int(first), int(last or first) + 1)


def table_console(*, stderr: bool = False, width: int = WIDTH) -> Console:
    """Return a console on which tables are at least so wide if the output is no terminal."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=max(width, console.width))
