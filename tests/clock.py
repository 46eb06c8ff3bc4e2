"""A clock that tests set: `clock.now` in seconds."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Callable like `time.monotonic`."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
