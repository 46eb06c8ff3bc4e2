"""finished(): the result of work that is done in steps, where nobody is let in between."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finished(steps: Generator[object, None, Result]) -> Result:
    """Return the result of steps that are done without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
