"""A clock that the test moves."""

from dataclasses import dataclass


@dataclass
class Clock:
    now: float = 100.0
    """Seconds."""

    def __call__(self) -> float:
        return self.now
