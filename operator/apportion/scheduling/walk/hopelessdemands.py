"""HopelessDemands: those behind which nobody has to stand back, though their quota guarantees them what others would borrow.

In: the demands behind which somebody stands back, what was refused, the limits of quotas, the clock. Out: whether one gets nothing whatever becomes
free: it is refused as it is written, or no node could serve what its limits leave it even if everything were free.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from apportion.errors import BrokenInput
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from apportion.scheduling.autoscaling.emptynodes import EmptyNodes, Shape
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace

_REPEATED = 10.0
"""Seconds after which nodes are asked anew, if nodes or slices changed."""
_AT_ONCE = 16
"""Shapes that nodes are asked about in one pass."""


class _Answer(NamedTuple):
    """What nodes said about demands of one shape."""

    at: float
    epoch: tuple[int, int] | None
    """Of nodes and slices; None: they did not know."""
    nowhere: bool


_UNKNOWN = _Answer(float("-inf"), None, nowhere=False)


class HopelessDemands:
    """Looks at the claimants of quotas, however they wait and whatever their policies show to autoscalers."""

    def __init__(
        self,
        decider: Decider,
        clock: Callable[[], float],
        is_evaluated: Callable[[WaitingDemand], bool],
        lifted: Callable[[], AbstractContextManager[None]],
        wake: Callable[[], None],
    ) -> None:
        """`is_evaluated`, `lifted`: as `EmptyNodes` has them; `wake` asks for another pass."""
        self._decider, self._clock, self._wake = decider, clock, wake
        self._empty = EmptyNodes(decider.snapshot, clock, is_evaluated, lifted)
        self._claimants: dict[str, WaitingDemand] = {}
        """Demands behind which somebody stood back, by key."""
        self._shapes: dict[str, tuple[WaitingDemand, Shape | None]] = {}
        """Such a demand as it asks for what its limits leave, as far as that is known, and what decides the answer, by key."""
        self._answers: dict[Shape, _Answer] = {}
        self._managed: object = None
        """The classes and policies by which the shapes were read."""
        decider.quotas.claimants.is_hopeless, decider.quotas.claimants.look = self.is_hopeless, self.look

    def is_hopeless(self, key: str) -> bool:
        """Say whether a demand gets nothing whatever becomes free, as far as is known."""
        _, shape = self._shapes.get(key, (None, None))
        nowhere = shape is not None and self._answers.get(shape, _UNKNOWN).nowhere
        return nowhere or self._decider.refusals.is_unservable(key)

    def look(self) -> Iterator[None]:
        """Ask nodes about those behind which somebody stands back; yields where others may run."""
        claimants = self._decider.quotas.claimants
        self._claimants |= claimants.ahead
        claimants.ahead = {}
        shapes = yield from self._read()
        self._answers = {shape: self._answers.get(shape, _UNKNOWN) for shape in shapes}
        due = sorted(filter(self._is_due, shapes), key=lambda shape: self._answers[shape].at)
        for shape in due[:_AT_ONCE]:
            before, epoch = self._answers[shape], self._empty.epoch
            try:
                served = yield from self._empty.served(shapes[shape], shape[0])
            except BrokenInput:
                served = 0
            nowhere = before.nowhere if served is None else not served
            self._answers[shape] = _Answer(self._clock(), None if served is None else epoch, nowhere)
            if nowhere and not before.nowhere:
                self._wake()

    def _read(self) -> Generator[None, None, dict[Shape, WaitingDemand]]:
        """Return what decides the answers about those that have waited, each with a demand."""
        quotas, pace, found = self._decider.quotas, Pace(), dict[Shape, WaitingDemand]()
        if self._managed is not self._decider.snapshot.managed:
            self._managed = self._decider.snapshot.managed
            self._shapes.clear()
        for key, demand in tuple(self._claimants.items()):
            if pace.rests():
                yield
            if quotas.waiting.get(key) is not demand:
                del self._claimants[key]
                self._shapes.pop(key, None)
            elif self._decider.waits_for(key) >= PATIENCE:
                left, known = quotas.others.get(key, demand), self._shapes.get(key)
                if known is None or known[0] != left:
                    known = self._shapes[key] = left, self._empty.shape(left)
                if known[1] is not None:
                    found.setdefault(known[1], left)
        return found

    def _is_due(self, shape: Shape) -> bool:
        answer = self._answers[shape]
        return answer.epoch != self._empty.epoch and self._clock() - answer.at >= _REPEATED
