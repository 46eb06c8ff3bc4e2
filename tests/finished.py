"""Steps that are done without a pause."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finished(steps: Generator[object, None, Result]) -> Result:
    """Return the result of steps, without letting others run in between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
