"""RefusedShapes: which demands are refused because another one of their shape is.

In: demands that were refused before, the capacity of nodes. Out: those that still are; one of each shape is asked about.
"""

from collections.abc import Callable, Sequence

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.policyterms import terms_of
from apportion.allocator.queue import Answer
from apportion.scheduling.decider import Decider
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.shape import Shape
from apportion.scheduling.waiting import WaitingDemand


class RefusedShapes:
    """Asks whether refusals still hold."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._refusals = decider.refusals

    def among(self, demands: Sequence[WaitingDemand], capacity: HostCapacity) -> frozenset[str]:
        """Return the demands (keys) whose shape is refused; of shapes that were refused before one demand is asked about.

        Those for whom devices are reserved count among others of their shape: they may get what is reserved all the same.
        """
        shapes = [self._decider.alike(demand) for demand in demands]
        asked_about: set[Shape] = set()
        for demand, shape in zip(demands, shapes, strict=True):
            if shape is None or shape.named or shape in asked_about or self._refusals.is_refused_shape(shape):
                continue
            if not self._refusals.was_refused(demand.key) or self._decider.rests(demand.key):
                continue
            asked_about.add(shape)
            refusal = self._refusal(demand, capacity, allocate)
            if refusal is not None:
                self._refusals.refuse_shape(shape, refusal, named=False)
        return frozenset(
            demand.key
            for demand, shape in zip(demands, shapes, strict=True)
            if self._refusals.is_refused_shape(shape)
        )

    def stays_refused(self, demand: WaitingDemand, capacity: HostCapacity) -> bool:
        """Say whether a demand that was refused would be refused for its shape now, too; then it is, and its shape with it.

        Where it could be served, or its Event is due, nothing changes: it has to be decided.
        """
        shape = self._decider.shape(demand)
        if self._refusals.is_refused_shape(shape):
            return True
        if not self._refusals.is_explained(demand, shape) or self._refusal(demand, capacity, decide) is None:
            return False
        self._refusals.refuse_with_shape(demand, shape)
        return True

    def _refusal(
        self, demand: WaitingDemand, capacity: HostCapacity, how: Callable[..., Answer | None]
    ) -> Refusal | str | None:
        """Return why a demand cannot be served now; None where it can, or where an error is met.

        `how`: `allocate`, or `decide`, which gives no reason: the text is then empty. An error, or a defect, is met again
        when the demand is decided by itself, and reported then.
        """
        terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
        try:
            asked = self._decider.further.ask(demand, capacity)
            if isinstance(asked, str):
                return asked
            answer = how(self._snapshot.state, asked, terms, prefer=self._decider.candidates.idle)
            if not isinstance(answer, Decision):
                answer = self._decider.further.decide(demand, asked, terms, capacity) or answer
        except Exception:  # noqa: BLE001 - whatever it is, see above
            return None
        if answer is None:
            return ""
        return answer if isinstance(answer, Refusal) else None
