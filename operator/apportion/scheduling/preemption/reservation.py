"""Reservation: the devices of a demand for which pods are evicted, held for it from before they are free until it gets them.

In: the allocator's state, a decision that counts with the victims gone. Out: a holder of these devices, under a key of its own
(ADR 4): each demand that is asked about meanwhile, the victims too once they wait again, finds them taken.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from apportion.allocator.decision import Decision
from apportion.allocator.state import State


class Reservation:
    """One held decision."""

    def __init__(self, state: State, demand: str, decision: Decision) -> None:
        """`demand`: its key."""
        self._state = state
        self._key = f"preempt:{demand}"
        self._results = tuple(result for each in decision.allocations for result in each.results)
        self.node = decision.node
        self.hold()

    def hold(self) -> None:
        """Keep others off the devices."""
        self._state.hold(self._key, self._results)

    def release(self) -> None:
        """Let others have them."""
        self._state.release(self._key)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let the demand itself be asked about."""
        self.release()
        try:
            yield
        finally:
            self.hold()
