"""Reservation: the devices of those for which pods are evicted, held for them from before they are free until they get them.

In: the allocator's state, decisions that count with the victims gone. Out: a holder of these devices, under a key of its own
(ADR 4): each demand that is asked about meanwhile, the victims too once they wait again, finds them taken.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from apportion.allocator.decision import Decision
from apportion.allocator.state import State
from apportion.api.hold import HoldPurpose, hold_key, hold_name
from apportion.scheduling.demands.waiting import WaitingDemand


class Reservation:
    """Held decisions: one, or those for the members of a group."""

    def __init__(self, state: State, key: str, rows: Sequence[tuple[WaitingDemand, Decision]]) -> None:
        """`key`: of who waits; `rows`: what each member gets."""
        self._state = state
        self.rows = rows
        self._named(key)
        self.results = tuple(
            result for _, decision in rows for each in decision.allocations for result in each.results
        )
        self.nodes = frozenset(decision.node for _, decision in rows)
        self.hold()

    def rename(self, key: str) -> None:
        """Hold the devices under the key of who waits, which has another one by now."""
        if hold_name(HoldPurpose.PREEMPTION, key) != self.name:
            self.release()
            self._named(key)
            self.hold()

    def hold(self) -> None:
        """Keep others off the devices."""
        self._state.hold(self._key, self.results)

    def release(self) -> None:
        """Let others have them."""
        self._state.release(self._key)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let those that they are for be asked about."""
        self.release()
        try:
            yield
        finally:
            self.hold()

    def _named(self, key: str) -> None:
        self.name = hold_name(HoldPurpose.PREEMPTION, key)
        """Of the DeviceHold that shows it."""
        self._key = hold_key(self.name)
