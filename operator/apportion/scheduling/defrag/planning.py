"""Planning: a plan for a DefragPolicy, made on a copy of the allocator's state, so that it can be made in a thread.

In: what the snapshot knows at one moment, and who may move. Out: a plan, or why there is none. The copy has the nodes that count, and all that anybody
holds: claims, layouts, reservations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from apportion.allocator.defrag.moves import Goal, Movable, Plan, Resources, RoomFor
from apportion.allocator.defrag.plan import Planning
from apportion.allocator.rules.features import Features
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.api.defrag import DefragPolicySpec
from apportion.cel import Programs
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.node import Node
from apportion.dra.slice import Slice
from apportion.dra.taintrule import DeviceTaintRule
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.candidates import TOLERATIONS
from apportion.scheduling.defrag.goals import failing, goal_of, selects_cards

_TERMS = Terms(Strategy.LEAST_FRAGMENTATION)


class Verdict(StrEnum):
    """What became of a window."""

    PLANNED = "Planned"
    NOTHING_TO_DO = "NothingToDo"
    NO_MOVES = "NoMoves"
    BELOW_THRESHOLD = "BelowThreshold"
    TOO_MANY_RESTARTS = "TooManyRestarts"
    SELECTOR_FAILED = "SelectorFailed"
    BROKEN = "Broken"
    DEFECT = "Defect"


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to one window."""

    verdict: Verdict
    message: str = ""
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """What a plan is made from, as it was at one moment; nothing of it changes."""

    spec: DefragPolicySpec
    features: Features
    nodes: Sequence[Node]
    slices: Sequence[Slice]
    classes: Sequence[DeviceClass]
    taint_rules: Sequence[DeviceTaintRule]
    holds: Mapping[str, tuple[DeviceResult, ...]]
    movables: Sequence[Movable]
    room: Mapping[str, Resources]

    @classmethod
    def of(
        cls,
        spec: DefragPolicySpec,
        snapshot: Snapshot,
        nodes: frozenset[str],
        movables: Sequence[Movable],
        room: Mapping[str, Resources],
    ) -> "Picture":
        """Take what the snapshot knows of these nodes now."""
        return cls(
            spec,
            snapshot.state.features,
            [each for each in snapshot.nodes.values() if each.name in nodes],
            [
                each
                for each in snapshot.slices.values()
                if each.availability.node is None or each.availability.node in nodes
            ],
            [*snapshot.classes.values()],
            [*snapshot.taint_rules.values()],
            snapshot.state.held(),
            [*movables],
            dict(room),
        )

    def plan(self) -> Planned:
        """Return a plan; it may take seconds, and reads nothing that others write."""
        if not self.nodes:
            return Planned(Verdict.NO_MOVES, "spec.nodeSelector selects no node that is not cordoned")
        state = self._state()
        flaw: BrokenInput | None = None
        try:
            flaw = failing(self.spec, state)
            goal = goal_of(self.spec, state)
            if flaw is None and not selects_cards(state, goal):
                return Planned(
                    Verdict.NO_MOVES, "spec.free.wholeCards selects no device that takes a whole card"
                )
            found = make_plan(state, self.movables, self.room, goal, _TERMS)
        except BrokenInput as error:
            if flaw is None:
                return Planned(Verdict.BROKEN, f"spec.free: {error}")
            found = None
        if flaw is None:
            return judged(self.spec, found)
        if found is None:
            return Planned(Verdict.SELECTOR_FAILED, str(flaw))
        planned = judged(self.spec, found)
        return replace(planned, message="; ".join(filter(None, (planned.message, str(flaw)))))

    def _state(self) -> State:
        state = State(self.features, Programs())
        for device_class in self.classes:
            state.put_class(device_class)
        for node in self.nodes:
            state.put_node(node.name, node.labels, node.declared_features)
        for rule in self.taint_rules:
            state.put_taint_rule(rule)
        for piece in self.slices:
            state.put_slice(piece)
        for key, results in self.holds.items():
            state.hold(key, results)
        return state


def make_plan(
    state: State,
    movables: Sequence[Movable],
    room: Mapping[str, Resources],
    goal: Goal,
    terms: Terms,
) -> Plan | None:
    """Return a plan on a state that has learnt nothing yet: what runs, and what is wanted, says what is asked for. Raises BrokenInput."""
    asked = [each.demand.claims for each in movables]
    if isinstance(goal, RoomFor):
        asked.append(goal.demand.claims)
    for claims in asked:
        state.learn(state.queries.of(claims, state.classes, state.features, TOLERATIONS))
    return Planning(state, movables, room, terms, TOLERATIONS).plan(goal)


def judged(spec: DefragPolicySpec, plan: Plan | None) -> Planned:
    """Say whether a plan is one to carry out."""
    if plan is None:
        return Planned(Verdict.NO_MOVES, "no moves lead there: the claims that may move find no other place")
    if not plan.moves:
        return Planned(Verdict.NOTHING_TO_DO, "it fits now", plan)
    if spec.free.whole_cards is not None and len(plan.cards) < spec.threshold:
        return Planned(
            Verdict.BELOW_THRESHOLD,
            f"moves would free {len(plan.cards)} whole cards, and spec.threshold is {spec.threshold}",
            plan,
        )
    if plan.pods > spec.max_restarts:
        return Planned(
            Verdict.TOO_MANY_RESTARTS,
            f"moves would restart {plan.pods} pods, and spec.maxRestarts is {spec.max_restarts}",
        )
    return Planned(Verdict.PLANNED, "", plan)
