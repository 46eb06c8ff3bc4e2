"""EmptyNodes: how often a demand could be served if everything were free.

In: a demand, the snapshot. Out: a number that is never too small. One node of each node class is asked, with all that claims hold there, or that is reserved for the first of the queue, released for the
moment; what layouts reserve and what was cut by hand stays taken, and sick devices stay tainted. The node has to suit the pods
as if no others ran there. A question that a class does not answer (a selector that reads a UUID, say, or a search that is given up), or of more classes than are looked at, is answered
with as many as were asked for. While the agent of a node publishes its devices anew, nobody knows what the node has.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import structlog

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import free_by_node, least_devices
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.policyterms import terms_of
from apportion.allocator.rules.query import Query
from apportion.api.contract import GUARD, HELD
from apportion.api.layout import LAYOUT_HOLD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.node import Node
from apportion.dra.nodeconstraints import against
from apportion.dra.pod import Pod
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput
from apportion.scheduling.demands.podneeds import constraints_of, copies, total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace
from apportion.scheduling.room.sharing import alone

_log = structlog.get_logger()
MOST_CLASSES = 32
"""Node classes that are asked about, those of the most nodes first."""
STEPS = 1_000
"""Steps of the search of a node, in one piece; nobody knows what a search that needs more would find."""
_MOST_TRIED = 8
"""Nodes of a class among which one is looked for that can be emptied."""
PUBLISHING = 60.0
"""Seconds for which a pool may lack slices until one goes by those that are there: an agent publishes them one after the other."""
TOLERATIONS = tuple(Toleration(key=key, operator="Exists") for key in (GUARD, HELD))
"""Who still has a device prepared will not have it for ever."""

Shape = tuple[Query, tuple[object, ...]]
"""What decides the answer: what the claims ask for, and what the pods ask of their node."""


class EmptyNodes:
    """Asks about nodes as if nobody used them."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Callable[[], float],
        is_evaluated: Callable[[WaitingDemand], bool],
        lifted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`is_evaluated` says whether a demand's costly selectors have been evaluated; nobody knows before.

        `lifted` lets the state show, within a block, nothing that is reserved for others of the queue.
        """
        self._is_evaluated = is_evaluated
        self._snapshot = snapshot
        self._clock = clock
        self._lifted = lifted
        self._incomplete: dict[str, float] = {}
        """Since when slices of a node's pools are seen to be missing."""

    @property
    def epoch(self) -> tuple[int, int]:
        """What changes whenever an answer may."""
        return self._snapshot.slice_epoch, self._snapshot.node_epoch

    def shape(self, demand: WaitingDemand) -> Shape | None:
        """Return what decides the answer; None where an allocated claim or a bound pod ties the demand, or it cannot be read."""
        if demand.tied or any(pod.node is not None for pod in demand.pods):
            return None
        state = self._snapshot.state
        try:
            query = state.queries.of(demand.asked, state.classes, state.features, TOLERATIONS)
        except BrokenInput:
            return None
        return query, tuple([constraints_of(pod) for pod in demand.pods])

    def could_serve(
        self, demand: WaitingDemand, query: Query, wanted: int = 1
    ) -> Generator[None, None, int | None]:
        """Return how many demands like this one the nodes could serve at once, at most `wanted`, and at most so many; 1, where they could serve only some of its pods, which share claims.

        None: nobody knows now, because a node publishes its devices anew, or something is held there for a while (for moves, say), or selectors are not
        evaluated yet, or cost too much, or because deciding breaks down. Yields between nodes, and goes on with the snapshot as it
        is then.
        """
        try:
            return (yield from self.served(demand, query, wanted))
        except BrokenInput:
            return wanted  # no other node would help; it is reported when the demand is decided

    def served(
        self, demand: WaitingDemand, query: Query, wanted: int = 1
    ) -> Generator[None, None, int | None]:
        """Do as `could_serve` does. Raises BrokenInput where a node says that the demand is broken."""
        try:
            found = yield from self._served(demand, query, wanted)
            # Of pods that share claims one may be served without the others.
            for part in alone(demand, self._snapshot) if found == 0 else ():
                shape = self.shape(part)
                served = (yield from self._served(part, shape[0], 1)) if shape is not None else 1
                if served != 0:
                    return served
        except BrokenInput:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
            _log.exception("autoscaling.defect", demand=demand.key)
            return None
        return found

    def _served(self, demand: WaitingDemand, query: Query, wanted: int) -> Generator[None, None, int | None]:
        state = self._snapshot.state
        if not state.query_cache.shared(query):
            return wanted
        room: dict[str, int] = {}
        pace = Pace()
        for node in tuple(self._snapshot.nodes.values()):
            if pace.rests():
                yield
            if room_here := self._copies(node, demand.pods):
                room[node.name] = room_here
        alike: dict[NodeClass, list[str]] = {}
        unknown = False
        states = state.settle(query)
        for name in [each for each in room if each in state.names()]:
            unknown |= self._publishes(name)
            alike.setdefault(states.of(name).node_class, []).append(name)
        asked = sorted(alike, key=lambda each: -len(alike[each]))
        found = 0
        for node_class in asked[:MOST_CLASSES]:
            if not self._is_evaluated(demand):
                return None
            with self._lifted():
                name, held = self._one_of(alike[node_class])
                with self._emptied(held or {}):
                    most = self._most_on(name, demand) if held is not None else 0
            unknown |= held is None
            if most is None:
                return wanted
            found += sum(min(most, room[each]) for each in alike[node_class])
            if found >= wanted:
                return wanted
            yield
        if len(asked) > MOST_CLASSES:
            return wanted
        return None if unknown else found

    def _publishes(self, name: str) -> bool:
        """Say whether slices of a node's pools have been missing for a short time."""
        state = self._snapshot.state
        if name not in state.names() or state.view(name).incomplete is None:
            self._incomplete.pop(name, None)
            return False
        now = self._clock()
        return now - self._incomplete.setdefault(name, now) < PUBLISHING

    def _most_on(self, name: str, demand: WaitingDemand) -> int | None:
        """Return how many demands like this one the free devices of a node could serve, at most; None: nobody knows."""
        state = self._snapshot.state
        one = Demand(demand.asked, frozenset({name}), tolerations=TOLERATIONS, seed=demand.key)
        terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
        answer = allocate(state, one, terms, steps=STEPS)
        if not isinstance(answer, Decision):
            return None if answer.verdict == "budget" else 0
        least, free = least_devices(state, one), free_by_node(state, one)
        return free[name].bit_count() // least if free is not None and least else None

    def _copies(self, node: Node, pods: tuple[Pod, ...]) -> int:
        """Return how often the pods would fit on a node without others."""
        if any(against(node, pod) is not None for pod in pods):
            return 0
        if not pods:
            return 1  # a claim by itself takes nothing else of a node
        return copies(node, total(pods), backed=self._snapshot.managed.extended_resources)

    @contextmanager
    def _emptied(self, held: Mapping[str, Allocation]) -> Generator[None]:
        """Release what claims hold on a node, by key, for the moment."""
        state = self._snapshot.state
        for key in held:
            state.release(key)
        try:
            yield
        finally:
            for key, found in held.items():
                state.hold(key, found.results)

    def _one_of(self, names: Sequence[str]) -> tuple[str, Mapping[str, Allocation] | None]:
        """Return a node of a class on which nothing is held that could not be released, with what is held there; the first and None, where none of a few is one."""
        asked = ((name, self._releasable(name)) for name in names[:_MOST_TRIED])
        return next((each for each in asked if each[1] is not None), (names[0], None))

    def _releasable(self, name: str) -> dict[str, Allocation] | None:
        """Return what claims hold on a node, by key.

        None where that could not be held again, or others than claims and layouts hold something (a demand for which pods are evicted, say),
        or the node is gone.
        """
        state = self._snapshot.state
        if name not in state.names():
            return None
        view = state.view(name)
        keys = {key for index in range(len(view.devices)) for key in state.holders(view.id_of(index))}
        held = {key: found for key in keys if (found := self._allocation(key)) is not None}
        # What a withdrawn device takes is known only while it is held.
        whole = all(key in held or key.startswith(LAYOUT_HOLD) for key in keys) and all(
            self._snapshot.devices.device(result.device) is not None
            for found in held.values()
            for result in found.results
        )
        return held if whole else None

    def _allocation(self, key: str) -> Allocation | None:
        """Return what a claim holds under a key; None for what is held otherwise: a layout's reservation."""
        ended = key.removeprefix("ended:")
        if ended != key:
            claim = self._snapshot.ended.get(ended)
            return claim.allocation if claim is not None else None
        claim = self._snapshot.claims.get(key)
        return self._snapshot.allocation(claim) if claim is not None else None
