"""Slow ends: pods that go take as long as a test wants.

In: an installation. Out: containers that end only once the test says so, so that no look at what is held meanwhile comes too late.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from testbed.installation import Installation

_LONG = 3600.0
"""Seconds; longer than any test."""


@asynccontextmanager
async def slow_ends(installation: Installation) -> AsyncIterator[Callable[[], None]]:
    """Let containers of pods that go run until the function that this yields is called, or the block ends."""

    def take(seconds: float) -> None:
        for kubelet in installation.kubelets.values():
            kubelet.stop_seconds = seconds

    take(_LONG)
    try:
        yield lambda: take(0.0)
    finally:
        take(0.0)
