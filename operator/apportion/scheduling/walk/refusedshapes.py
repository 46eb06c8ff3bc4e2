"""RefusedShapes: which demands are refused because another one of their shape is.

In: demands that were refused before, the capacity of nodes. Out: those that still are; one of each shape is asked about.
"""

from collections.abc import Callable, Collection, Generator, Sequence

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.policyterms import terms_of
from apportion.allocator.queue import Answer
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.shape import Shape
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room.hostcapacity import HostCapacity


class RefusedShapes:
    """Asks whether refusals still hold."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._refusals = decider.refusals

    def among(
        self, demands: Sequence[WaitingDemand], capacity: HostCapacity
    ) -> Generator[None, None, frozenset[str]]:
        """Return the demands (keys) whose shape is refused; of shapes that were refused before one demand is asked about. Yields before each, and while nodes are searched.

        What comes free meanwhile may let them in: the answer is then over. Those for whom devices are reserved count among others of their shape:
        they may get what is reserved all the same. Why a shape is refused is asked where one of the demands has not been told.
        """
        shapes = [self._decider.alike(demand) for demand in demands]
        asked_about: set[Shape] = set()
        unexplained = {
            shape
            for demand, shape in zip(demands, shapes, strict=True)
            if not self._is_explained(demand, shape)
        }
        for demand, shape in zip(demands, shapes, strict=True):
            if shape is None or shape.named or shape in asked_about or self._refusals.is_refused_shape(shape):
                continue
            if not self._refusals.was_refused(demand.key) or self._decider.rests(demand.key):
                continue
            asked_about.add(shape)
            yield
            refusal = yield from self._refusal(demand, shape, capacity, explains=shape in unexplained)
            if refusal is not None and shape in unexplained:
                self._refusals.refuse_shape(shape, refusal, named=False)
            elif refusal is not None:
                self._refusals.refuse_anew(shape)
        return frozenset(
            demand.key
            for demand, shape in zip(demands, shapes, strict=True)
            if self._refusals.is_refused_shape(shape)
        )

    def apart(self, refused: Collection[str]) -> frozenset[str]:
        """Return which of the demands (keys) whose shape is refused are decided by themselves nevertheless.

        Those for whom devices are reserved may get these, which a plan gives to nobody; and who was never refused has to be told why it
        waits, and may have devices reserved only then.
        """
        reservations, refusals = self._decider.reservations, self._refusals
        return frozenset(key for key in refused if key in reservations or not refusals.was_refused(key))

    def _is_explained(self, demand: WaitingDemand, shape: Shape | None) -> bool:
        """Say whether an Event said why a demand of this shape waits, and need not be made anew."""
        return demand.key in self._decider.reservations or self._refusals.is_explained(demand, shape)

    def stays_refused(self, demand: WaitingDemand, capacity: HostCapacity) -> Generator[None, None, bool]:
        """Say whether a demand that was refused would be refused for its shape now, too; then it is, and its shape with it.

        Where it could be served, or its Event is due, nothing changes: it has to be decided. Yields before it is asked about, and while nodes are searched.
        """
        shape = self._decider.shape(demand)
        if self._refusals.is_refused_shape(shape):
            return True
        if not self._refusals.is_explained(demand, shape):
            return False
        yield
        if (yield from self._refusal(demand, shape, capacity, explains=False)) is None:
            return False
        self._refusals.refuse_with_shape(demand, shape)
        return True

    def _refusal(
        self, demand: WaitingDemand, shape: Shape | None, capacity: HostCapacity, *, explains: bool
    ) -> Generator[None, None, Refusal | str | None]:
        """Return why a demand cannot be served now; None where it can, changed meanwhile, or meets an error.

        `explains`: if not, the text is empty where devices are missing. An error, or a defect, is met again when the demand is decided by
        itself, and reported then.
        """
        terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
        shut = not explains and self._decider.is_shut(shape)
        answer: Answer | None = None
        try:
            if shut and not self._decider.reservations.offers(demand):
                return ""
            asked, _ = yield from self._decider.further.ask(demand, capacity, None if shut else terms)
            if isinstance(asked, str):
                return asked
            if not shut:
                how: Callable[..., Answer | None] = allocate if explains else decide
                answer = how(self._snapshot.state, asked, terms, prefer=self._decider.candidates.idle)
            if not isinstance(answer, Decision):
                further = self._decider.further
                found = yield from further.decide(demand, asked, terms, capacity, was_asked=not shut)
                answer = found or answer
        except Exception:  # noqa: BLE001 - whatever it is, see above
            return None
        if answer is None:
            return ""
        return answer if isinstance(answer, Refusal) else None
