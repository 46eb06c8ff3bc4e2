"""Seeds as the command line names them. In: FIRST-LAST, or one number. Out: the numbers."""

from apportion.errors import BrokenInput


def numbers(text: str) -> range:
    """Return the seeds; raises BrokenInput."""
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        raise BrokenInput(f"--seeds {text}: expected two numbers, as in 1-5")
    return range(int(first), int(last or first) + 1)
