"""FurtherNodes: what a demand may have that does not fit beside all others: reserved devices, and nodes where pods have to go.

In: a demand, the capacity of nodes. Out: what to ask of the allocator, or a decision. Where only pods of lower priority take the cpu
and memory, our gate goes with the allocation, and kube-scheduler preempts as it would without us; where it does not, the allocation
is stalled and given back (`stalled.py`).
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial

from apportion.allocator.allocate import decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.queue import Answer
from apportion.allocator.terms import Terms
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill.reserveddevices import ReservedDevices
from apportion.scheduling.candidates.asking import Asking
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.noderoom import unplaced

_NOWHERE = "no node where pods have to go"


class FurtherNodes:
    """Looks further for demands that were refused."""

    def __init__(
        self, snapshot: Snapshot, candidates: Candidates, reserved: ReservedDevices, asking: Asking
    ) -> None:
        self._snapshot = snapshot
        self._candidates = candidates
        self._reserved = reserved
        self._asking = asking

    def ask(
        self,
        demand: WaitingDemand,
        capacity: HostCapacity,
        terms: Terms | None,
        no_node: str | None = None,
        planned: Callable[[frozenset[str]], Answer | None] | None = None,
    ) -> Generator[None, None, tuple[Demand | str, Answer | None]]:
        """Return what to ask of the allocator, if need be about nodes where pods have to go; or, for people, why no node could take the pods. And the planned answer.

        `terms`: by which the nodes are searched, as `Asking` does, unless the allocator is not to be asked about them. `no_node`: why, if that is known
        already, but for nodes that are reserved. `planned` returns what was planned on these nodes: nothing is searched then, unless the plan is dropped.
        """
        ask = partial(self._ask, demand, capacity, no_node)
        if planned is not None:
            asked = ask()
            answer = planned(asked.nodes or frozenset()) if isinstance(asked, Demand) else None
            if answer is not None or isinstance(asked, str):
                return asked, answer
        return (ask() if terms is None else (yield from self._asking.about(demand, terms, ask))), None

    def _ask(self, demand: WaitingDemand, capacity: HostCapacity, no_node: str | None) -> Demand | str:
        asked = self._reserved.ask(demand, capacity, no_node)
        return asked if isinstance(asked, Demand) else self._preempting(demand, capacity) or asked

    def decide(
        self,
        demand: WaitingDemand,
        asked: Demand,
        terms: Terms,
        capacity: HostCapacity,
        *,
        was_asked: bool = True,
    ) -> Generator[None, None, Decision | None]:
        """Return what a demand gets of what is reserved, or where pods have to go; None: nothing. Yields while nodes are searched.

        `was_asked`: whether the allocator has just refused what is `asked`; else another refusal stands for it. Raises ChangedMeanwhile and
        SearchStopped.
        """
        found = yield from self._of_reserved(demand, asked, terms, capacity, was_asked=was_asked)
        if found is not None:
            return found
        without = asked.nodes or frozenset()
        ask = partial(self._preempting, demand, capacity, without)
        further = yield from self._asking.about(demand, terms, lambda: ask() or _NOWHERE)
        if isinstance(further, str):
            return None
        return decide(self._snapshot.state, further, terms, prefer=self._candidates.idle)

    def _of_reserved(
        self,
        demand: WaitingDemand,
        asked: Demand,
        terms: Terms,
        capacity: HostCapacity,
        *,
        was_asked: bool,
    ) -> Generator[None, None, Decision | None]:
        reserved = self._reserved
        offer = reserved.offer(demand, asked, was_asked=was_asked)
        if offer is None:
            return None
        ask, lifted = partial(self._ask, demand, capacity, None), partial(reserved.lifting, offer)
        now = yield from self._asking.after_search(demand, offer.asked, terms, ask, lifted)
        if now is not offer.asked:
            offer = reserved.offer(demand, now, was_asked=False) if isinstance(now, Demand) else None
        return reserved.decide(offer, terms) if offer is not None else None

    def _preempting(
        self, demand: WaitingDemand, capacity: HostCapacity, without: frozenset[str] = frozenset()
    ) -> Demand | None:
        pods, has_lower = unplaced(demand, self._snapshot), self._snapshot.pod_index.has_lower
        if not pods or not all(pod.preempts and has_lower(pod.priority) for pod in pods):
            return None
        wider = self._candidates.ask(demand, capacity, preempting=True)
        if isinstance(wider, str) or wider.nodes is None or wider.nodes <= without:
            return None
        return replace(wider, nodes=wider.nodes - without)
