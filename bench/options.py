"""Parts of the command line that several benchmarks share: the exit status of bad input, and seeds."""

from apportion.errors import BrokenInput

BAD_INPUT = 2
"""Exit status for input that is refused."""


def parse_seeds(text: str) -> range:
    """Read FIRST-LAST or one number; raises BrokenInput."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        raise BrokenInput(f"--seeds {text}: expected two numbers, as in 1-5")
    return range(int(first), int(last or first) + 1)
