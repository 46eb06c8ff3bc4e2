"""Together: the demands of a group, all or nothing.

In: a group's demands that wait, the room on nodes. Out: decisions for enough of its pods, each on a node of its own choice; or
none, and Events that say what is missing. What members of a group hold that cannot be completed is given back.
"""

from collections.abc import Callable, Iterable, Mapping

from apportion.allocator.closeness.ladder import ladder_of
from apportion.allocator.demand import Demand
from apportion.allocator.gang import GangRefused, Member, allocate_gang
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.api.contract import GATE
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput
from apportion.scheduling import notices
from apportion.scheduling.candidates import coming
from apportion.scheduling.decider import Decider
from apportion.scheduling.foretold import foretold
from apportion.scheduling.groups import Joint
from apportion.scheduling.room import Room
from apportion.scheduling.waiting import Waiting

PATIENCE = 5.0
"""Seconds that a group may be incomplete before its users are told: whoever makes its pods makes them one by one."""


class Together:
    """Decides for groups."""

    def __init__(self, decider: Decider, clock: Callable[[], float]) -> None:
        self._decider = decider
        self._clock = clock
        self._since: dict[str, float] = {}
        """When a group was first seen incomplete."""

    def begin(self, waiting: Iterable[Joint]) -> None:
        """Start a pass over these groups; all others are forgotten."""
        kept = {joint.group.key for joint in waiting}
        self._since = {key: at for key, at in self._since.items() if key in kept}

    def decide(self, joint: Joint, room: Room) -> int:
        """Serve a group or say why not; returns how many claims were granted."""
        if not joint.whole:
            self._incomplete(joint)
            return 0
        self._since.pop(joint.group.key, None)
        decider = self._decider
        if any(decider.errands.paused(demand.key) for demand in joint.demands):
            return 0
        if decider.refused_lately(joint.key):
            self._give_back(joint)
            return 0
        try:
            answer = allocate_gang(
                decider.snapshot.state,
                [self._member(joint, demand) for demand in joint.demands],
                lambda index, placed: self._ask(joint, index, placed, room),
                enough=joint.enough,
                prefer=decider.idle,
            )
        except BrokenInput as error:
            decider.refuse(joint.key, "broken")
            for demand in joint.demands:
                notices.broken(decider.recorder, demand, error)
            self._give_back(joint)
            return 0
        if isinstance(answer, GangRefused):
            self._refused(joint, answer, room)
            return 0
        granted = 0
        for demand, decision in zip(joint.demands, answer.decisions, strict=True):
            if decision is not None:
                decider.learn(demand, decision)
                decider.grant(demand, decision, room)
                granted += len(demand.claims)
            else:
                notices.left_out(decider.recorder, joint.group, demand)
        return granted

    def _member(self, joint: Joint, demand: Waiting) -> Member:
        policy = self._decider.snapshot.management.policy(demand.claims[0])
        return Member(
            len(joint.mine(demand)),
            Terms(Strategy(policy.strategy.value), ladder_of(policy), foretold(policy.demand)),
        )

    def _ask(self, joint: Joint, index: int, placed: Mapping[int, str], room: Room) -> Demand | None:
        """Return a member's demand beside the pods that would already go somewhere."""
        beside = room.copy()
        for other, node in placed.items():
            for pod in coming(joint.demands[other], self._decider.snapshot):
                beside.take(node, pod)
        return self._decider.ask(joint.demands[index], beside)[0]

    def _refused(self, joint: Joint, answer: GangRefused, room: Room) -> None:
        decider = self._decider
        blocked = joint.demands[answer.member]
        if answer.refusal is None:
            decider.refuse(joint.key, "no node")
            # Why is told beside the other pods of the group: alone there may be room.
            reasons = (
                decider.ask(blocked, room)[1] or "no node can take the pod beside the others of its group"
            )
            notices.no_node(decider.recorder, blocked, reasons)
        else:
            decider.refuse(joint.key, answer.refusal.verdict)
            notices.refused(decider.recorder, blocked, answer.refusal.explanation, decider.named)
        for demand in joint.demands:
            if demand is not blocked:
                notices.held_up(decider.recorder, joint, demand, answer.served, blocked)
        self._give_back(joint)

    def _incomplete(self, joint: Joint) -> None:
        self._give_back(joint)
        if joint.group.flaw:
            notices.group_broken(self._decider.recorder, joint.group)
            return
        now = self._clock()
        if now - self._since.setdefault(joint.group.key, now) >= PATIENCE:
            notices.group_incomplete(self._decider.recorder, joint)

    def _give_back(self, joint: Joint) -> None:
        """Clear what pods hold that still wait at our gate: others may use it until the group can have it all."""
        snapshot, errands = self._decider.snapshot, self._decider.errands
        for pod in joint.group.pods:
            if GATE not in pod.gates or errands.ungating(pod.uid):
                continue
            for entry in pod.claims:
                claim = snapshot.claim(pod.namespace, entry.claim) if entry.claim else None
                if claim is not None and self._spare(claim):
                    errands.clear(claim, f"group {joint.group.key} cannot have all that it needs", "group")

    def _spare(self, claim: Claim) -> bool:
        """Say whether nothing runs on what the claim has."""
        return (
            claim.allocation is not None
            and claim.allocated_by == self._decider.manager
            and not claim.reserved_for
            and all(pod.node is None and GATE in pod.gates for pod in self._decider.snapshot.users(claim))
        )
