"""Future: the state as it will be on single nodes, once what ends there has ended.

In: a state, what becomes free on each node and when. Out: the same state, with the first endings of a node over. It is as it was when the block ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from apportion.allocator.decision import Decision
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes free on a node at one moment."""

    at: float | None
    """When, in seconds by the caller's clock; None: nobody knows."""
    held: tuple[tuple[str, tuple[DeviceResult, ...]], ...] = ()
    """Keys of the state that hold devices until then, and what they hold."""
    devices: int = field(init=False, compare=False, repr=False)
    """How many devices become free."""

    def __post_init__(self) -> None:
        """Count once what every plan reads."""
        object.__setattr__(self, "devices", sum(len(results) for _, results in self.held))


class Future:
    """The state as it will be on single nodes; as it was when the block ends."""

    def __init__(self, state: State, endings: Mapping[str, Sequence[Ending]]) -> None:
        self._state = state
        self._endings = endings
        self._ended: dict[str, int] = {}
        self._over: Counter[str] = Counter()
        """On how many nodes what a key holds has ended."""
        self._placed: list[str] = []
        self._to_put: list[tuple[int, Decision]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in self._placed:
            self._state.release(key)
        for node in tuple(self._ended):
            self.move(node, 0)

    def of(self, node: str) -> Sequence[Ending]:
        """Return the endings of a node."""
        return self._endings.get(node, ())

    def move(self, node: str, ended: int) -> None:
        """Let the first `ended` endings of a node have come, and no others."""
        before, self._ended[node] = self._ended.get(node, 0), ended
        endings = self.of(node)
        freed = [key for ending in endings[before:ended] for key, _ in ending.held]
        taken = [row for ending in endings[ended:before] for row in ending.held]
        # What several nodes reach ends on one of them after the other.
        self._over.update(freed)
        self._over.subtract(key for key, _ in taken)
        self._state.release_all(freed)
        self._state.hold_all(row for row in taken if not self._over[row[0]])

    def put(self, number: int, decision: Decision) -> None:
        """Have what a member will get held for those that come after it (`hold_others`)."""
        self._to_put.append((number, decision))

    def hold_others(self) -> None:
        """Hold what other members will get; behind the last of them nobody comes."""
        while self._to_put:
            number, decision = self._to_put.pop()
            for position, allocation in enumerate(decision.allocations):
                key = f"member/{number}/{position}"
                self._placed.append(key)
                self._state.hold(key, allocation.results)
