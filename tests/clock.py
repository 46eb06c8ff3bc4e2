"""A clock that the test moves."""

from dataclasses import dataclass


@dataclass
class Clock:
    now: float = 100.0
    """Seconds."""

    def __call__(self) -> float:
        return self.now


@dataclass
class Ticking(Clock):
    """A clock that moves by itself whenever it is read, so that work takes time."""

    step: float = 0.005
    """Seconds."""

    def __call__(self) -> float:
        self.now += self.step
        return self.now
